"""The parts of tests/run_mpi.py, which stays the command.

    mpis           the MPI installations, and how a program starts under the launcher of each
    processes      one command: runs it, stops it, finds what it leaves behind
    outputs        what of a program's output is compared, and checks of what it and Narrows print
    applications   input and checks of Debian's programs: NetPIPE, hpcc, LAMMPS
    cases          all cases: each a program with its arguments, and what is expected of it
    checks         builds the program of a case, runs it and compares, with the output of a plain run or with the failure wanted
    refusals       commands that Narrows must refuse, and runs that cannot work on this host
    repeats        two runs of one program are the same

Each uses only what stands above it.
"""
