"""perftest at one end of a rail: its server or its client, a process of this one.

Each is ended by a deadline at the latest. It stays in our process group, as everything does.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from gdrcheck import steps
from gdrcheck.facts import Unreadable
from gdrcheck.outcome import ProbeError
from gdrcheck.pairing import perftest_tool
from gdrcheck.pairing.binding import bind
from gdrcheck.pairing.child import DEATH_S
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.listening import calls, listens
from gdrcheck.pairing.messages import Answer, clipped
from gdrcheck.pairing.perftest_tool import MAX_JSON_BYTES, TOOLS, Gpu, Settings
from gdrcheck.pairing.tool_context import ToolContext
from gdrcheck.pairing.tool_process import ToolProcess, ending
from gdrcheck.pairing.tools import (
    PerftestAbsent,
    PerftestPlan,
    PerftestRan,
    PerftestRun,
    PerftestServing,
)
from gdrcheck.probes.reading import read_text
from gdrcheck.transfer import Memory
from gdrcheck.verbs.protocol import Opened

# Debian's perftest knows no CUDA; one that does needs libcuda to start, and is kept apart.
CUDA_FOLDER = Path("/opt/gdrcheck/perftest")
_POLL_S = 0.02
# What a client says whose call was refused: src/perftest_communication.c.
_NOT_CONNECTED = "Couldn't connect to"


class PerftestEnd:
    """perftest at this end. ``kill`` ends what runs, from any thread.

    ``find`` says where a program is, by its name, None when it is nowhere.
    """

    def __init__(
        self, context: ToolContext, find: Callable[[str, Memory], Path | None] | None = None
    ) -> None:
        self._context = context
        self._find = find or program
        self._server: ToolProcess | None = None
        self._client: ToolProcess | None = None

    def serve(self, plan: PerftestPlan, opened: Opened, deadline: Deadline) -> Answer:
        """Start the server; it listens when this returns. EndFailure."""
        self.kill()
        found = self._program(plan, plan.sink)
        address = self._context.rail.data_address or self._context.channel_address
        if isinstance(found, PerftestAbsent):
            return found
        if address is None:
            return PerftestAbsent(reason=f"{self._context.name} has no address to listen on")
        address, port = self._free_port(address)
        command = perftest_tool.server_command(found, plan, self._settings(opened), address, port)
        self._server = server = self._start(command, "server")
        self._await_listener(
            server, found.name, port, deadline.within(self._context.waits.connect_s)
        )
        return PerftestServing(address=address, port=port)

    def run(self, request: PerftestRun, opened: Opened, deadline: Deadline) -> Answer:
        """Run the client to its end. EndFailure if it fails, or takes longer than ``check_s``;
        ``PerftestAbsent`` when the server's port is not to be reached, or it tells no usable
        figure: that says nothing of RDMA.
        """
        plan, context = request.plan, self._context
        found = self._program(plan, plan.source)
        if isinstance(found, PerftestAbsent):
            return found
        json_path = context.out_dir / f"rail-{context.rail.id}-perftest.json"
        json_path.unlink(missing_ok=True)
        command = perftest_tool.client_command(
            found, plan, self._settings(opened), request.address, request.port, json_path
        )
        limit = deadline.within(context.waits.check_s)
        self._client = client = self._start(command, "client")
        try:
            with steps.step(f"{found.name} on {context.name}"):
                code = client.wait(min(limit.remaining_s, context.waits.completion_s / 2))
                if code is None and calls(request.port):
                    return self._unreachable(request)
                if code is None:
                    code = client.wait(limit.remaining_s)
            if code is None:
                text = f"did not end within {limit.seconds:g} s: {client.said()}"
                raise context.failure(found.name, text)
            if code != 0 and _NOT_CONNECTED in client.said():
                return self._unreachable(request)
            if code != 0:
                raise context.failure(found.name, f"{ending(code)}: {client.said()}")
        finally:
            self._client = None
            client.kill()
        return self._numbers(plan, json_path, " ".join(command))

    def stop(self) -> str:
        """End the server. What it said if it did not end well by itself, else ""."""
        server, self._server = self._server, None
        if server is None:
            return ""
        # It ends by itself a moment after the client did.
        code = server.wait(DEATH_S)
        stuck = server.kill()
        if code == 0:
            return ""
        how = "had not ended" if code is None else ending(code)
        return clipped("; ".join(filter(None, (f"{how}: {server.said()}", stuck))))

    def kill(self) -> None:
        """End server and client at once."""
        server, self._server = self._server, None
        for process in (self._client, server):
            if process is not None:
                process.kill()

    def _program(self, plan: PerftestPlan, memory: Memory) -> Path | PerftestAbsent:
        name = TOOLS[plan.kind]
        if memory == "gpu" and not (self._context.gpu and self._context.gpu.methods):
            return PerftestAbsent(reason=f"{self._context.name} has no GPU memory to measure")
        if memory == "gpu" and self._context.gpu and self._context.gpu.exclusive:
            return PerftestAbsent(reason=self._context.exclusive)
        found = self._find(name, memory)
        if found is None:
            kind = " with CUDA" if memory == "gpu" else ""
            return PerftestAbsent(reason=f"there is no {name}{kind} on this node or in its image")
        return found

    def _unreachable(self, request: PerftestRun) -> PerftestAbsent:
        place = f"{request.address} port {request.port}"
        return PerftestAbsent(
            reason=f"{self._context.name} does not reach perftest's server at {place} by TCP: a "
            "firewall, or no route between the addresses of the ports"
        )

    def _settings(self, opened: Opened) -> Settings:
        context, profile, gpu = self._context, self._context.profile, self._context.gpu
        return Settings(
            device=context.rail.nic,
            port=context.rail.port,
            gid_index=opened.gid_index if opened.link_layer == "ethernet" else None,
            pkey_index=self._pkey_index(),
            traffic_class=profile.traffic_class,
            service_level=profile.service_level,
            path_mtu=profile.path_mtu,
            completion_s=context.waits.completion_s,
            gpu=Gpu(gpu.slot, gpu.methods[0]) if gpu and gpu.methods else None,
        )

    def _pkey_index(self) -> int:
        """Where the profile's partition key is in the port's table, as sysfs tells it."""
        wanted, rail = self._context.profile.pkey, self._context.rail
        if wanted is None:
            return 0
        table = self._context.root / f"sys/class/infiniband/{rail.nic}/ports/{rail.port}/pkeys"
        for entry in sorted(table.glob("*"), key=lambda path: int(path.name)):
            text = read_text(entry)
            # Bit 15 is full against limited membership.
            if not isinstance(text, Unreadable) and (int(text, 16) ^ wanted) & 0x7FFF == 0:
                return int(entry.name)
        text = f"partition key {wanted:#06x} is not in the table of {rail.nic} port {rail.port}"
        raise self._context.failure("find the partition key", text)

    def _free_port(self, address: str) -> tuple[str, int]:
        """The address as numbers, and a port on it that nobody uses now."""
        step = f"listen on {address}"
        try:
            family, kind, number, _, place = socket.getaddrinfo(
                address, 0, type=socket.SOCK_STREAM
            )[0]
            with socket.socket(family, kind, number) as trial:
                trial.bind(place)
                return str(place[0]), int(trial.getsockname()[1])
        except OSError as error:
            raise self._context.failure(step, error.strerror or str(error)) from error

    def _start(self, command: Sequence[str], part: str) -> ToolProcess:
        context = self._context
        log_path = context.out_dir / f"rail-{context.rail.id}-perftest-{part}.log"
        try:
            process = ToolProcess(command, log_path)
        except OSError as error:
            raise context.failure(command[0], error.strerror or str(error)) from error
        bind(process.pid, context.root, context.rail.nic)
        return process

    def _await_listener(
        self, server: ToolProcess, name: str, port: int, deadline: Deadline
    ) -> None:
        with steps.step(f"wait for {name} on {self._context.name} to listen"):
            while not listens(port):
                code = server.wait(_POLL_S)
                if code is not None:
                    raise self._context.failure(name, f"{ending(code)}: {server.said()}")
                if deadline.expired:
                    text = f"does not listen within {deadline.seconds:g} s: {self.stop()}"
                    raise self._context.failure(name, text)

    def _numbers(self, plan: PerftestPlan, path: Path, command: str) -> Answer:
        """What it measured; ``PerftestAbsent`` when it ended well and wrote no usable figure.

        It rounds to hundredths of a Gb/s, and writes words where it divided by nothing: that says
        that the instrument is of no use here, and nothing of the path.
        """
        try:
            with path.open("rb") as file:
                text = file.read(MAX_JSON_BYTES)
            numbers = perftest_tool.numbers(plan.kind, text, clipped(command))
        except OSError as error:
            raise self._context.failure("read perftest's JSON", error.strerror or "") from error
        except ProbeError as problem:
            return PerftestAbsent(reason=clipped(str(problem)))
        return PerftestRan(numbers=numbers)


def program(name: str, memory: Memory) -> Path | None:
    """Where the program of perftest is that can use ``memory``, None when there is none."""
    if memory == "host":
        found = shutil.which(name)
        return Path(found) if found else None
    with_cuda = CUDA_FOLDER / name
    return with_cuda if with_cuda.is_file() else None
