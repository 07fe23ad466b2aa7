"""The MPI installations, and how a program starts under the launcher of each."""

import dataclasses
import subprocess
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

    def fortran(self) -> list[str]:
        """The compiler for Fortran. That of Intel's wheel looks for its modules in another folder than it has."""
        if self.name != "intel":
            return [self.tool("mpif90")]
        major = subprocess.run(["gfortran", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0].strip()
        return [self.tool("mpif90"), *(f"-I{folder}" for folder in (self.prefix / "include/mpi/gfortran").glob(f"{major}.*"))]

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
            case "intel":
                # Its shared memory would be another library: collectives that add in another order.
                return [self.tool("mpiexec"), "-genv", "I_MPI_FABRICS", "ofi", "-genv", "I_MPI_PIN", "0", "-genv", "FI_PROVIDER_PATH", str(self.prefix / "lib"), "-n", str(ranks), *command]
            case _:
                return [self.tool("mpiexec"), "-n", str(ranks), *command]

    @property
    def environment(self) -> dict[str, str]:
        match self.name:
            case "mpich":
                return {}
            case "intel":
                # Its compilers look in the one, libmpifort.so finds libmpi.so in the other.
                return {"I_MPI_ROOT": str(self.prefix), "LD_LIBRARY_PATH": str(self.prefix / "lib")}
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def oneccl() -> list[str]:
    """Options of the compiler for programs of oneCCL. One of its libraries needs the other one: only the old kind of path in a binary is for that, too."""
    folder = ROOT / "target/oneccl"
    libraries = [str(folder / "lib" / name) for name in ("libccl.so.1", "libccl.so.2")]
    return [f"-I{folder / 'include'}", *libraries, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{folder / 'lib'}"]


MPI_NAMES = ("debian", "openmpi", "mpich", "intel")
# Intel's runs with four ranks only (make test-intel), so that tests end in time.
USUAL = ",".join(MPI_NAMES[:3])
# Where `make setup-test` puts them.
PREFIXES = {name: Path("/usr") if name == "debian" else ROOT / "target/mpis" / name for name in MPI_NAMES}
