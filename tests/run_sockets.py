#!/usr/bin/env python3
"""Programs over TCP and UDP sockets on the simulated network, without MPI: each run twice, with one digest and one output.

    tests/run_sockets.py [--narrows PATH] [-k REGEX]
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSES = FAILURES = 0


class Runner:
    def __init__(self, narrows, only):
        self.narrows, self.only = narrows, only
        self.folder = ROOT / "target" / "sockets"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ping = self.folder / "ping"
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", ROOT / "tests/sockets/ping.c", "-o", self.ping], check=True)

    def run(self, *words, machine="bxi-v2"):
        command = [self.narrows, "run", "--machine", machine, "--compute", "none", "--timeout", "100", "--sockets", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def expect(self, name, pattern, *words, code=0, machine="bxi-v2"):
        global PASSES, FAILURES
        if self.only and not re.search(self.only, name):
            return
        first, second = (self.run(*words, machine=machine) for _ in range(2))
        digests = [re.search(r"digest ([0-9a-f]+)", run.stderr) for run in (first, second)]
        output = [sorted(run.stdout.splitlines()) for run in (first, second)]
        same = output[0] == output[1] and (code != 0 or (all(digests) and digests[0][1] == digests[1][1]))
        match = re.search(pattern, first.stdout + first.stderr, re.S)
        good = match if first.returncode == code and same else None
        PASSES, FAILURES = PASSES + bool(good), FAILURES + (not good)
        text = (good[0].replace("\n", "; ")[:100] if good else f"code {first.returncode}\n{first.stdout}{first.stderr}{second.stdout}{second.stderr}")
        print(f"{'ok  ' if good else 'FAIL'}  {name:32} {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--narrows", default=ROOT / "target/release/narrows")
    parser.add_argument("-k", dest="only")
    options = parser.parse_args()
    runner = Runner(options.narrows, options.only)
    ping, echo = runner.ping, ROOT / "tests/sockets/echo.py"
    for protocol in "udp", "tcp":
        runner.expect(f"ping {protocol}", r"client: \d+", "-n", 1, "--", ping, protocol, "server", "-", 20, 56,
                      ":", "-n", 1, ping, protocol, "client", "node000", 20, 56)
    runner.expect("ping tcp 100000 bytes", r"client: \d+", "-n", 1, "--", ping, "tcp", "server", "-", 5, 100000,
                  ":", "-n", 1, ping, "tcp", "client", "node000", 5, 100000)
    runner.expect("python's selectors (epoll)", r"server done 3", "-n", 1, "--", sys.executable, echo, "server", 3,
                  ":", "-n", 3, sys.executable, echo, "client", "node000")
    runner.expect("http.server ends with its clients", r"hello.*rank 0 on node000 ended too", "-n", 1, "--", sys.executable, "-c",
                  "from http.server import *; HTTPServer(('', 8000), SimpleHTTPRequestHandler).serve_forever()", ":", "-n", 2, sys.executable, "-c",
                  "import time, urllib.request as u; time.sleep(0.01); u.urlopen('http://node000:8000/').read(); print('hello')")
    runner.expect("an address outside", r"asked for an address outside of the run.*Network is unreachable", "-n", 2, "--", sys.executable,
                  "-c", "import socket; socket.socket().connect(('8.8.8.8', 80))", code=1)
    # docs/ip.md: 80 Gb/s over BXI v2. `make setup-test` installs iperf3.
    runner.expect("iperf3 over BXI v2", r"8[0-4]\.\d Gbits/sec +receiver", "-n", 1, "--", "iperf3", "-s", "-1", ":", "-n", 1, "iperf3", "-c",
                  "node000", "-i", 0, "-n", "500M")
    print(f"{PASSES} passed, {FAILURES} failed")
    return FAILURES != 0


if __name__ == "__main__":
    sys.exit(main())
