"""perftest between two lab nodes: the numbers that people compare."""

from __future__ import annotations

import re
import subprocess
import time

from lab import api

_PORT = 18515
# A retransmission timeout of 1 s: with the default of 67 ms emulated nodes retransmit without a
# loss, and rxe answers some of that with REM_INV_REQ_ERR (tried).
_PATIENT = "-u 18"
_LISTEN_S = 60.0
_RUN_S = 300.0


# Client, server, device and GID index.
Route = tuple[api.Node, api.Node, str, int]


def latency_us(route: Route, size_bytes: int, iterations: int, extra: str = "") -> float:
    """The typical (median) latency in us that ib_send_lat prints on the client."""
    # Columns: bytes, iterations, t_min, t_max, t_typical, t_avg, ...
    return _row(_run(route, "ib_send_lat", size_bytes, iterations, extra), size_bytes)[4]


def bandwidth_gbps(route: Route, size_bytes: int, iterations: int, queue_pairs: int = 1) -> float:
    """The average bandwidth in Gb/s that ib_write_bw prints on the client; ``iterations`` are those
    of each queue pair.
    """
    extra = f"-q {queue_pairs} --report_gbits"
    # Columns: bytes, iterations of all queue pairs, peak, average, message rate.
    return _row(_run(route, "ib_write_bw", size_bytes, iterations, extra), size_bytes)[3]


def _run(route: Route, tool: str, size_bytes: int, iterations: int, extra: str) -> str:
    client, server, device, gid_index = route
    command = (
        f"{tool} -d {device} -x {gid_index} -s {size_bytes} -n {iterations} {_PATIENT} {extra}"
    )
    serving = subprocess.Popen(
        server.ssh_command(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await_listener(server, tool)
        done = client.ssh(f"{command} {server.data_address}", timeout_s=_RUN_S, check=True)
        serving.wait(_RUN_S)
    finally:
        serving.kill()
        serving.wait()
    return done.stdout


def _await_listener(server: api.Node, tool: str) -> None:
    deadline = time.monotonic() + _LISTEN_S
    while not server.ssh(f"ss -Hltn 'sport = :{_PORT}'", check=True).stdout.strip():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{tool} does not listen on {server.name} after {_LISTEN_S:.0f} s")


def _row(output: str, size_bytes: int) -> list[float]:
    for line in output.splitlines():
        if re.match(rf"\s*{size_bytes}\s+\d", line):
            return [float(word) for word in line.split()]
    raise ValueError(f"no line for {size_bytes} bytes in:\n{output}")
