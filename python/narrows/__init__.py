"""Narrows: MPI programs, traces and synthetic traffic on a simulated machine.

    >>> import narrows as nw
    >>> machine = nw.machine("bxi-v2", nodes=4)
    >>> result = nw.traffic("shift:1", machine=machine, load=0.25, warmup="5us", time="20us")
    >>> result.summary["points"][0]["saturated"]
    False

* :func:`machine`, :func:`presets` -- the simulated machine.
* :func:`traffic`, :func:`replay`, :func:`run` -- synthetic traffic, traces, MPI programs; each gives a :class:`Result`.
* :func:`sweep` -- many points, on dask.distributed; what is finished is kept.
* :func:`explore` -- an MPI program under many timings, on dask.distributed.
* :func:`sensitivity` -- which keys of a machine a result depends on.
* :func:`iron_law` -- what binds a kernel as nodes get more and smaller: computing, memory or the network.
* :func:`optimise` -- the best values of machine parameters, by Optuna.
* :func:`calibrate` -- constants of a machine from measurements on a real one.
* :func:`compare` -- two machines or two results side by side.
* :func:`generate`, :func:`record`, :func:`extrapolate` -- a trace that is made up, that of an MPI program, or one at
  more ranks than were recorded.
* :func:`analyse` -- who sends what to whom in a trace.
* :func:`load` -- a folder that ``narrows ... --out`` has written, as a :class:`Result`.
* :class:`NarrowsError` -- what goes wrong, in the words of the command line.

Quantities are texts with units, as in machine files: ``"100us"``, ``"400 Gbit/s"``, ``"8 KiB"``. Names of columns end
with their unit.
"""

from narrows._calibration import Calibration, Constant, calibrate
from narrows._compare import Comparison, compare
from narrows._explore import Exploration, explore
from narrows._iron_law import IronLaw, iron_law
from narrows._machine import Machine, machine, presets
from narrows._native import NarrowsError, __version__
from narrows._optimise import Optimisation, optimise
from narrows._results import NarrowsWarning, Result, StudyFailed, Table, load
from narrows._sensitivity import Effect, Sensitivity, sensitivity
from narrows._studies import analyse, extrapolate, generate, record, replay, run, traffic
from narrows._sweep import Study, sweep

__all__ = [
    "Calibration",
    "Comparison",
    "Constant",
    "Effect",
    "Exploration",
    "IronLaw",
    "Machine",
    "NarrowsError",
    "NarrowsWarning",
    "Optimisation",
    "Result",
    "Sensitivity",
    "Study",
    "StudyFailed",
    "Table",
    "__version__",
    "analyse",
    "calibrate",
    "compare",
    "explore",
    "extrapolate",
    "generate",
    "iron_law",
    "load",
    "machine",
    "optimise",
    "presets",
    "record",
    "replay",
    "run",
    "sensitivity",
    "sweep",
    "traffic",
]
