"""The iron law of a parallel program: computing, memory or the network binds, whichever takes longest.

T >= T_op max(1, T_mem / T_op, T_net / T_op): docs/iron-law.md has the kernels and their sources.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows._machine import as_machine, quantity
from narrows._native import NarrowsError
from narrows._studies import Where

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Kernel:
    """What one node of P does for a problem of size n: operations, and words over memory and network."""

    operations: Callable[[float, float], float]
    memory: Callable[[float, float, float], float]
    """Of n, P and the words Z of fast memory."""
    network: Callable[[float, float], float]
    word: int
    """Bytes of a word."""


def _log2(value: float) -> float:
    return math.log2(max(value, 2.0))


# Sources stand in docs/iron-law.md.
KERNELS: dict[str, Kernel] = {
    "matmul-2d": Kernel(
        lambda n, p: 2 * n**3 / p, lambda n, p, z: 2 * n**3 / (p * math.sqrt(z)), lambda n, p: 2 * n**2 / math.sqrt(p) if p > 1 else 0.0, 8
    ),
    "matmul-3d": Kernel(
        lambda n, p: 2 * n**3 / p, lambda n, p, z: 2 * n**3 / (p * math.sqrt(z)), lambda n, p: 3 * n**2 / p ** (2 / 3) if p > 1 else 0.0, 8
    ),
    "fft-3d": Kernel(
        lambda n, p: 5 * n**3 * _log2(n**3) / p,
        lambda n, p, z: 2 * n**3 * _log2(n**3) / (p * _log2(z)),
        lambda n, p: 2 * n**3 / p if p > 1 else 0.0,
        16,
    ),
    "stencil": Kernel(lambda n, p: 8 * n**3 / p, lambda n, p, z: 2 * n**3 / p, lambda n, p: 6 * (n**3 / p) ** (2 / 3) if p > 1 else 0.0, 8),
    "cg": Kernel(lambda n, p: 64 * n**3 / p, lambda n, p, z: 52 * n**3 / p, lambda n, p: 6 * (n**3 / p) ** (2 / 3) if p > 1 else 0.0, 8),
}


@dataclass(frozen=True)
class Point:
    """One number of nodes."""

    nodes: int
    operations_s: float
    """Time for the operations at the node's peak."""
    memory_penalty: float
    """Time for memory over that."""
    network_penalty: float

    @property
    def time_s(self) -> float:
        """At least so long does it take."""
        return self.operations_s * max(1.0, self.memory_penalty, self.network_penalty)

    @property
    def binds(self) -> str:
        """Which of the three."""
        worst = max(1.0, self.memory_penalty, self.network_penalty)
        return "computing" if worst == 1.0 else "memory" if worst == self.memory_penalty else "network"


@dataclass(frozen=True)
class IronLaw:
    """A kernel on machines of equal peak and more and more nodes. Made by :func:`iron_law`."""

    kernel: str
    size: int
    points: list[Point]

    @property
    def crossing(self) -> float | None:
        """Nodes at which the network's penalty exceeds that of memory for the first time, between two points by logarithms;
        None where it does not."""
        pairs = zip(self.points, self.points[1:], strict=False)
        for one, other in pairs:
            low, high = one.network_penalty - one.memory_penalty, other.network_penalty - other.memory_penalty
            if low < 0 <= high:
                if one.network_penalty <= 0:
                    return float(other.nodes)
                first, last = (math.log(point.network_penalty / point.memory_penalty) for point in (one, other))
                return float(one.nodes * (other.nodes / one.nodes) ** (first / (first - last)))
        return None

    @property
    def text(self) -> str:
        """A table, and where the penalties cross."""
        rows = [("nodes", "operations", "memory penalty", "network penalty", "at least", "binds")]
        for point in self.points:
            penalties = (f"{point.memory_penalty:.3g}", f"{point.network_penalty:.3g}")
            rows.append((str(point.nodes), f"{point.operations_s:.4g} s", *penalties, f"{point.time_s:.4g} s", point.binds))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        where = "The network's penalty does not exceed that of memory here."
        if self.crossing is not None:
            where = f"From {self.crossing:.3g} nodes on the network's penalty is the larger one."
        return "\n".join([f"{self.kernel}, n = {self.size}", "", *lines, "", where]) + "\n"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Both penalties over nodes, and where they cross."""
        from matplotlib import pyplot

        ax = ax or pyplot.subplots()[1]
        nodes = [point.nodes for point in self.points]
        ax.loglog(nodes, [point.memory_penalty for point in self.points], "o-", label="memory penalty")
        ax.loglog(nodes, [point.network_penalty or math.nan for point in self.points], "s-", label="network penalty")
        ax.axhline(1, color="grey", linewidth=0.8)
        if self.crossing is not None:
            ax.axvline(self.crossing, color="grey", linestyle=":", label=f"{self.crossing:.3g} nodes")
        ax.set(xlabel="nodes (equal peak in all)", ylabel="time / time of the operations", title=f"{self.kernel}, n = {self.size}")
        ax.legend()
        return ax


def iron_law(
    kernel: str,
    size: int,
    *,
    nodes: Sequence[int],
    peak: float,
    memory: float,
    fast_memory: float,
    network: float | None = None,
    machine: Where = "bxi-v2",
) -> IronLaw:
    """How long a kernel takes at least on P nodes that share a peak, and what binds: computing, memory or the network.

    kernel: "matmul-2d", "matmul-3d", "fft-3d", "stencil" or "cg" (docs/iron-law.md). size: n: rows of the matrices, points
    of an edge of the grid. nodes: numbers of nodes.
    peak: of all nodes together, operations per second. memory: bandwidth of one node, bytes per second. fast_memory: what
    a node's cache holds, bytes. network: what one node's NIC sends, bytes per second; None: the machine's link or PCIe,
    whichever is slower.

    Raises NarrowsError for an unknown kernel, and for numbers that are not above 0.

        >>> law = iron_law("matmul-2d", 16384, nodes=[1, 64], peak=42e12, memory=76.8e9, fast_memory=40e6)
        >>> [point.binds for point in law.points]
        ['computing', 'computing']
    """
    if kernel not in KERNELS:
        raise NarrowsError(f"{kernel}: no such kernel; there are {', '.join(KERNELS)}")
    if network is None:
        where = as_machine(machine)
        network = min(quantity(where["link.host.bandwidth"]), quantity(where["node.pcie.data_bandwidth"]))
    numbers = {"size": size, "peak": peak, "memory": memory, "fast_memory": fast_memory, "network": network}
    for name, value in [*numbers.items(), *(("nodes", one) for one in nodes)]:
        if not value > 0 or math.isinf(value):
            raise NarrowsError(f"{name} = {value}: expected a number above 0")
    own = KERNELS[kernel]

    def point(count: int) -> Point:
        operations = own.operations(size, count) / (peak / count)
        stored = own.memory(size, count, fast_memory / own.word) * own.word / memory
        sent = own.network(size, count) * own.word / network
        return Point(count, operations, stored / operations, sent / operations)

    return IronLaw(kernel, size, [point(count) for count in sorted(set(nodes))])
