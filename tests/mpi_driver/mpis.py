"""The MPI installations, and how a program starts under the launcher of each."""

import dataclasses
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "tests" / "mpi"


@dataclasses.dataclass(frozen=True)
class Mpi:
    """One MPI installation: where its compilers and its launcher are."""

    name: str
    prefix: Path

    def tool(self, name: str) -> str:
        return str(self.prefix / "bin" / name)

    def usable(self) -> bool:
        return Path(self.tool("mpicc")).exists()

    def plain(self, ranks: int, command: list[str]) -> list[str]:
        """The command line of the launcher of this MPI, many ranks on few cores."""
        match self.name:
            case "debian":
                # osc/rdma of Open MPI 4.1.4 crashes in a compare-and-swap between ranks of one node; osc/sm and pt2pt
                # do not.
                # And its MPI_Dist_graph_create with topo/treematch stands still for ever in one of three runs of
                # p2p_programs, where all ranks agree on the number of a communicator.
                mca = ["--mca", "osc", "sm,pt2pt", "--mca", "topo", "^treematch"]
                return [self.tool("mpirun"), "--oversubscribe", *mca, "-n", str(ranks), *command]
            case "openmpi":
                return [self.tool("mpirun"), "--map-by", ":OVERSUBSCRIBE", "--mca", "osc", "^ucx", "-n", str(ranks), *command]
            case _:
                return [self.tool("mpiexec"), "-n", str(ranks), *command]

    @property
    def environment(self) -> dict[str, str]:
        if self.name == "mpich":
            return {}
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


MPI_NAMES = ("debian", "openmpi", "mpich")
