"""Several real processes of this machine that run one benchmark file as ranks of gloo."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


def run_ranks(script: str, size: int, *arguments: str, limit_s: float = 500.0) -> dict:
    """Run ``script worker OUT ...`` as ranks; returns the JSON that rank 0 wrote to OUT."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out.json"
        started = []
        for rank in range(size):
            meeting = {
                "RANK": str(rank), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            }  # fmt: skip
            command = [sys.executable, script, "worker", out, *arguments]
            started.append(subprocess.Popen(command, env=os.environ | meeting))
        try:
            codes = [process.wait(limit_s) for process in started]
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
        if any(codes):
            raise SystemExit(f"ranks ended with {codes}")
        return json.loads(Path(out).read_text())
