"""Debian's own programs, NetPIPE, hpcc and LAMMPS: their input, and whether what they print is right."""

import re

from .processes import Outcome


def netpipe(outcome: Outcome, _: str) -> str | None:
    rows = re.findall(r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+([\d.]+) Mbps in\s+([\d.]+) usec", outcome.stdout + outcome.stderr, re.M)
    if len(rows) < 30:
        return f"only {len(rows)} sizes measured"
    bad = [size for size, rate, _ in rows if float(rate) <= 0]
    return f"no bandwidth for {bad[0]} bytes" if bad else None


def hpcc_files(ranks: int) -> dict[str, str]:
    rows = {4: 2, 16: 4}[ranks]
    return {"hpccinf.txt": HPCC_INPUT.replace("@P@", str(rows)).replace("@Q@", str(ranks // rows))}


# HPL with N = 100 and PTRANS of the same size: every test of the suite runs and verifies, in a few seconds.
HPCC_INPUT = """HPLinpack benchmark input file
Narrows
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
100          Ns
1            # of NBs
20           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
@P@          Ps
@Q@          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


def hpcc(outcome: Outcome, _: str) -> str | None:
    """Every test of hpcc must have run and verified itself."""
    try:
        text = (outcome.folder / "hpccoutf.txt").read_text()
    except OSError:
        return "no hpccoutf.txt"
    values = dict(re.findall(r"^(\w+)=(\S+)$", text, re.M))
    wrong = []
    if values.get("Success") != "1":
        wrong.append("no Success=1")
    if not re.search(r"\|\|Ax-b\|\|.*PASSED", text) or re.search(r"\|\|Ax-b\|\|.*FAILED", text):
        wrong.append("HPL")
    if set(re.findall(r"(\d+) tests completed and failed residual checks", text)) != {"0"}:
        wrong.append("residuals of HPL or PTRANS")
    if re.search(r"^(?:CPU|WALL)\s.*FAILED", text, re.M) or not re.search(r"^WALL\s.*PASSED", text, re.M):
        wrong.append("PTRANS")
    # The rules of RandomAccess allow 1 % of lost updates; a few do occur, with any MPI.
    for name in ("MPIRandomAccess_ErrorsFraction", "MPIRandomAccess_LCG_ErrorsFraction"):
        if not 0 <= float(values.get(name, "nan")) <= 0.01:
            wrong.append(f"{name}={values.get(name)}")
    if len(re.findall(r"Found 0 errors in \d+ locations \(passed\)", text)) < 2 or re.search(r"locations \(failed\)", text):
        wrong.append("RandomAccess")
    if re.findall(r"Node\(s\) with error (\d+)", text).count("0") < 10:
        wrong.append("Node(s) with error")
    if "Solution Validates" not in text or "Failed Validation" in text:
        wrong.append("STREAM")
    for name in ("MPIFFT_maxErr", "StarFFT_Gflops", "SingleFFT_Gflops", "RandomlyOrderedRingLatency_usec", "NaturallyOrderedRingLatency_usec"):
        if name.endswith("maxErr"):
            if not 0 <= float(values.get(name, "nan")) < 1e-12:
                wrong.append(f"{name}={values.get(name)}")
        elif float(values.get(name, "-1")) <= 0:
            wrong.append(f"{name}={values.get(name)}")
    return "did not verify: " + ", ".join(wrong) if wrong else None


def thermo(text: str) -> str:
    """The thermodynamic table of LAMMPS."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.lstrip().startswith("Step ")), None)
    end = next((i for i, line in enumerate(lines) if line.startswith("Loop time")), None)
    return "no thermo table" if start is None or end is None else "\n".join(lines[start:end])


MELT = """# A Lennard-Jones melt of 6,912 atoms
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 12 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 10
run 50
"""
