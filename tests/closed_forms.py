#!/usr/bin/env python3
"""Virtual time against sums by hand, with a stock MPI program on each of the three networks.

    tests/closed_forms.py            Debian's Open MPI; prints each expectation beside the result

The stages are read from the resolved machine that the run itself leaves in summary.json.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NARROWS = ROOT / "target/release/narrows"
UNITS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
RATES = {"kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}
ITERATIONS = 4
SIZES = {"B": 1, "KiB": 1024, "MiB": 1 << 20}


def ns(text: str) -> float:
    value, unit = text.split()
    return float(value) * UNITS[unit]


def rate(text: str) -> float:
    """Bytes per ns."""
    value, unit = text.split()
    return float(value) * RATES[unit] / 1e9


def size(text: str) -> float:
    value, unit = text.split()
    return float(value) * SIZES[unit]


def build(name: str, folder: Path) -> Path:
    target = folder / name
    subprocess.run(["mpicc.openmpi", "-O1", str(ROOT / "examples" / f"{name}.c"), "-o", str(target), "-lm"], check=True)
    return target


def run(folder: Path, network: str, ranks: int, *command: str) -> tuple[str, dict]:
    out = folder / "out"
    line = [str(NARROWS), "run", "-n", str(ranks), "--compute", "none", "--network", network, "--timeout", "120", "--out", str(out), "--", *command]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout, json.loads((out / "summary.json").read_text())


def zero_bytes(machine: dict) -> float:
    """Half the round trip of 0 bytes between two nodes of one leaf switch, ns: what DESCRIBE says."""
    pcie, nic, software = machine["node"]["pcie"], machine["nic"], machine["software"]
    link = machine["link"]["host"]
    return (
        ns(software["post"])
        + ns(pcie["latency"]) + size(nic["command_size"]) / rate(pcie["bandwidth"])
        + 2 * ns(link["latency"]) + ns(machine["switch"]["latency"]) + size(machine["network"]["header"]) / rate(link["bandwidth"])
        + ns(nic["match_base"]) + ns(nic["match_per_entry"])
        + ns(pcie["latency"]) + size(nic["event_size"]) / rate(pcie["bandwidth"])
        + ns(software["completion"])
    )


def one_sided(machine: dict) -> tuple[float, float]:
    """MPI_Put and MPI_Get of 8 bytes with their flush, one call after the other, ns: what DESCRIBE_PUT and DESCRIBE_GET say."""
    pcie, nic, software = machine["node"]["pcie"], machine["nic"], machine["software"]
    link, dma = machine["link"]["host"], ns(machine["nic"]["dma_latency"])
    header = size(machine["network"]["header"])

    def over_pcie(length: float) -> float:
        return ns(pcie["latency"]) + length / rate(pcie["bandwidth"])

    def over_network(length: float) -> float:
        return 2 * ns(link["latency"]) + ns(machine["switch"]["latency"]) + (header + length) / rate(link["bandwidth"])

    begin = ns(software["post"]) + over_pcie(size(nic["command_size"]))
    match = ns(nic["match_base"]) + ns(nic["match_per_entry"])
    end = over_pcie(size(nic["event_size"])) + ns(software["completion"])
    put = begin + over_network(8) + match + over_network(size(nic["ack_size"])) + end
    get = begin + over_network(0) + match + over_pcie(64) + dma + over_network(8) + dma + end
    return put, get


DESCRIBE_PUT = "post + command over PCIe + network + matching + network for the ACK + event over PCIe + completion"
DESCRIBE_GET = "post + command over PCIe + network + matching + read over PCIe + network + write + event over PCIe + completion"
DESCRIBE = "post + command over PCIe + two links and a header + matching one entry + event over PCIe + completion"


def main() -> int:
    passed = failed = 0

    def check(what: str, expected: float, found: float, tolerance: float, unit: str) -> None:
        nonlocal passed, failed
        good = abs(found - expected) <= tolerance * expected
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'}  {what}: expected {expected:.2f} {unit}, found {found:.2f} {unit} (within {tolerance:.1%})", flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pingpong, incast, onesided = build("pingpong", folder), build("incast", folder), build("onesided", folder)
        for network in ("packet", "flow", "loggp"):
            output, summary = run(folder, network, 2, str(pingpong), str(64 << 20), str(ITERATIONS))
            machine = summary["machine"]
            rows = {int(row[0]): (float(row[1]) * 1e3, float(row[2]) * 1e6 / 1e9) for row in re.findall(r"^ *(\d+) +([\d.]+) +([\d.]+)$", output, re.M)}
            # The program reads the clock once for all its half round trips.
            expected = zero_bytes(machine) + ns(machine["software"]["clock_read"]) / (2 * ITERATIONS)
            check(f"{network}: half round trip of 0 bytes = {DESCRIBE}", expected, rows[0][0], 0.001, "ns")
            mtu, header = size(machine["network"]["mtu"]), size(machine["network"]["header"])
            link = rate(machine["link"]["host"]["bandwidth"]) * mtu / (mtu + header)
            narrowest = min(link, rate(machine["node"]["pcie"]["data_bandwidth"]))
            check(f"{network}: 64 MiB messages tend to the narrowest stage", narrowest, rows[64 << 20][1], 0.02, "B/ns")
            output, _ = run(folder, network, 2, str(onesided), "8", str(ITERATIONS))
            found = re.search(r"^ *8 +([\d.]+) +([\d.]+)", output, re.M)
            for column, (what, expected) in enumerate(zip((f"put of 8 bytes = {DESCRIBE_PUT}", f"get of 8 bytes = {DESCRIBE_GET}"), one_sided(machine)), 1):
                expected += ns(machine["software"]["clock_read"]) / ITERATIONS
                check(f"{network}: {what}", expected, float(found.group(column)) * 1e3, 0.002, "ns")
            if network != "loggp":
                output, _ = run(folder, network, 5, str(incast), str(8 << 20))
                each = float(re.search(r"([\d.]+) MB/s each", output).group(1)) * 1e6 / 1e9
                check(f"{network}: 4 senders to one share its link, 1/4 each", narrowest / 4, each, 0.03, "B/ns")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
