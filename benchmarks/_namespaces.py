"""One network namespace for each "host": a veth pair to a bridge, both directions rate-limited."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from _common import left_out


def possible() -> bool:
    """Whether namespaces and rate limits may be made here."""
    try:
        with hosts([100.0]):
            return True
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


@contextmanager
def hosts(rates: Sequence[float]) -> Iterator[list[tuple[str, str]]]:
    """Namespaces with links of the given rates, Mbit/s; yields (namespace, address) of each."""
    mark = uuid.uuid4().hex[:5]
    bridge = f"fb{mark}"
    names = [f"fh{mark}{n}" for n in range(len(rates))]
    try:
        try:
            _run("ip", "link", "add", bridge, "type", "bridge")
        except (OSError, subprocess.CalledProcessError):
            left_out("it makes network namespaces, which needs Linux, iproute2 and root")
        _run("ip", "link", "set", bridge, "up")
        for n, (name, rate) in enumerate(zip(names, rates, strict=True)):
            outer = f"fv{mark}{n}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "eth0", "netns", name)
            _run("ip", "link", "set", outer, "master", bridge, "up")
            inside = ("ip", "netns", "exec", name)
            _run(*inside, "ip", "addr", "add", f"10.77.0.{n + 1}/24", "dev", "eth0")
            _run(*inside, "ip", "link", "set", "eth0", "up")
            _run(*inside, "ip", "link", "set", "lo", "up")
            limit = ("root", "tbf", "rate", f"{rate}mbit", "burst", "64kb", "latency", "100ms")
            _run("tc", "qdisc", "add", "dev", outer, *limit)
            _run(*inside, "tc", "qdisc", "add", "dev", "eth0", *limit)
        yield [(name, f"10.77.0.{n + 1}") for n, name in enumerate(names)]
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                _run("ip", "netns", "del", name)
        with suppress(subprocess.CalledProcessError):
            _run("ip", "link", "del", bridge)


def run_ranks(places: list[tuple[str, str]], *arguments: str, limit_s: float = 300.0) -> None:
    """Start ``sys.argv[0] worker ...`` in every namespace and wait for all."""
    started = []
    for rank, (name, _) in enumerate(places):
        env = os.environ | {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(places)),
            "MASTER_ADDR": places[0][1],
            "MASTER_PORT": "29511",
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
        }
        command = ["ip", "netns", "exec", name, sys.executable, sys.argv[0], "worker", *arguments]
        started.append(subprocess.Popen(command, env=env))
    try:
        codes = [process.wait(limit_s) for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
    if any(codes):
        raise SystemExit(f"ranks ended with {codes}")
