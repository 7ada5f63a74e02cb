"""What the lab does on its host: processes, ports, tools, QMP, the choice of accelerator."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import accelerator, access, cache, qmp, tools
from lab.errors import LabError
from lab.node_image import NodeImage
from lab.process import Process, listening_sockets, start_ticks_of


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_is_ended_by_id_and_start_time(child: subprocess.Popen[bytes]) -> None:
    ticks = start_ticks_of(child.pid)
    assert ticks is not None
    ours = Process(child.pid, ticks)
    assert ours.alive()
    ours.kill()
    assert not ours.alive()
    assert child.wait(10) == -9


def test_a_stranger_with_the_same_id_is_left_alone(child: subprocess.Popen[bytes]) -> None:
    ticks = start_ticks_of(child.pid)
    assert ticks is not None
    gone = Process(child.pid, ticks - 1)
    assert not gone.alive()
    gone.kill()
    assert child.poll() is None


def test_listening_sockets_are_those_that_accept(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert path not in listening_sockets(), "bound, but nobody would answer"
        server.listen()
        assert path in listening_sockets()


def test_a_port_in_use_or_refused_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        ports = [busy.getsockname()[1], 21001, 21002]
        monkeypatch.setattr(access.random, "sample", lambda *_: ports)  # type: ignore[attr-defined]
        assert access.free_port(taken=[21001]) == 21002
        with pytest.raises(LabError, match="no free port"):
            access.free_port(taken=[21001, 21002])


@contextmanager
def a_server(greeting: bytes) -> Iterator[int]:
    """Accepts like a forwarded port does, says its greeting, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(greeting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_only_a_greeting_counts_as_an_answer() -> None:
    with a_server(b"SSH-2.0-x\r\n") as port:
        assert access.ssh_answers(port, deadline_s=5)
    with a_server(b"") as port:
        assert not access.ssh_answers(port, deadline_s=0.5)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.tools.shutil.which", lambda *_, **__: None)
    with pytest.raises(LabError, match=r"qemu-img is not installed.*package qemu-utils"):
        tools.run("qemu-img", deadline_s=1)


def test_a_failing_program_is_quoted_and_a_hanging_one_ended() -> None:
    with pytest.raises(LabError, match=r"status 3.*\n.*the reason"):
        tools.run("sh", "-c", "echo the reason >&2; exit 3", deadline_s=10)
    with pytest.raises(LabError, match="did not end within 0 s"):
        tools.run("sleep", "30", deadline_s=0.1)


@contextmanager
def a_machine(path: Path, answers: list[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    """A QMP server that takes one connection; yields the requests that it got."""
    requests: list[dict[str, object]] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as stream:
                stream.write('{"QMP": {}}\n')
                stream.flush()
                for answer in answers:
                    if "event" not in answer:
                        requests.append(json.loads(stream.readline()))
                    stream.write(json.dumps(answer) + "\n")
                    stream.flush()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield requests
        thread.join(5)


def test_qmp_passes_over_events_and_returns_the_answer(tmp_path: Path) -> None:
    answers: list[dict[str, object]] = [{"return": {}}, {"event": "X"}, {"return": {"a": 1}}]
    with a_machine(tmp_path / "q", answers) as requests:
        assert qmp.execute(tmp_path / "q", "set_link", name="n", up=False) == {"a": 1}
    assert requests[1] == {"execute": "set_link", "arguments": {"name": "n", "up": False}}


def test_qmp_refusals_are_errors(tmp_path: Path) -> None:
    refusal: dict[str, object] = {"error": {"class": "DeviceNotFound", "desc": "no such device"}}
    with (
        a_machine(tmp_path / "q", [{"return": {}}, refusal]),
        pytest.raises(LabError, match="no such device"),
    ):
        qmp.execute(tmp_path / "q", "set_link", name="n", up=True)
    with pytest.raises(LabError, match="QMP stop"):
        qmp.execute(tmp_path / "absent", "stop")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a /dev/kvm that opens and a QEMU that is a shell script, to be written."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(accelerator, "_PROBE_DEADLINE_S", 1.0)
    monkeypatch.setattr(accelerator, "_DEVICE", tmp_path / "kvm")
    (tmp_path / "kvm").touch()
    return tmp_path


IMAGE = NodeImage(Path("/kernel"), Path("/initramfs"), Path("/disk"))
SERIAL = "for word; do case $word in file,*path=*) serial=${word##*path=};; esac; done"
RUNS = f"{SERIAL}; echo 'gdrcheck-lab: kernel runs' >>$serial"


def a_qemu(host: Path, boot: str) -> None:
    script = host / "qemu-system-x86_64"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo QEMU 1 && exit\necho x >>{host}/boots\n{boot}\n'
    )
    script.chmod(0o755)


@pytest.mark.parametrize(
    ("boot", "name", "reason"),
    [
        (RUNS, "kvm", "a kernel booted"),
        (f"{RUNS}; exec sleep 30", "kvm", "a kernel booted"),
        ("exec sleep 30", "tcg", "no kernel ran within 1 s"),
        ("echo cannot set MSR >&2; exit 1", "tcg", "status 1 cannot set MSR"),
        (":", "tcg", "QEMU ended with status 0"),
    ],
)
def test_kvm_is_used_only_where_a_kernel_was_seen_to_run(
    host: Path, boot: str, name: str, reason: str
) -> None:
    a_qemu(host, boot)
    chosen = accelerator.choose(IMAGE)
    assert chosen.name == name
    assert reason in chosen.reason


def test_the_choice_is_remembered_until_the_record_is_unreadable(host: Path) -> None:
    a_qemu(host, RUNS)
    for _ in range(2):
        assert accelerator.choose(IMAGE).name == "kvm"
    assert (host / "boots").read_text().count("x") == 1
    (record,) = (cache.cache_directory() / "accelerator").iterdir()
    record.write_text('{"name"')
    assert accelerator.choose(IMAGE).name == "kvm"
    assert (host / "boots").read_text().count("x") == 2


def test_without_the_device_nothing_is_tried(host: Path) -> None:
    a_qemu(host, RUNS)
    (host / "kvm").unlink()
    assert accelerator.choose(IMAGE).name == "tcg"
    assert not (host / "boots").exists()
