"""What gdrcheck pingpong takes and what it refuses, before it looks at the machine."""

from __future__ import annotations

import argparse
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.cli import main
from gdrcheck.commands.pingpong import option_types
from gdrcheck.commands.pingpong.reach import addresses_of
from gdrcheck.outcome import InputError
from gdrcheck.transfer import MODES
from tests.commands.support import run
from tests.pairing.support import PATIENCE_S

TOKEN = "a-token-of-the-tests-0123456789"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("pingpong", "node2"), "no token: set GDRCHECK_TOKEN"),
        (("pingpong", "--listen", "-n", "3", "--numbers"), "-n/--iterations is for the caller"),
        (("pingpong", "--listen", "--json"), "--json: the caller prints the result"),
        (("pingpong", "node2", "--timeout", "5"), "a caller needs 10 seconds"),
        (("pingpong", "node2", "--keep"), "--keep is for a listener"),
        (("pingpong", "node2", "--gpu", "none", "--modes", "gpu-gpu"), "--gpu none leaves"),
        (("pingpong", "node2", "--token-file", "/nowhere"), "--token-file /nowhere: No such file"),
    ],
)
def test_what_contradicts_itself_is_one_line_and_exit_code_2(
    argv: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GDRCHECK_TOKEN", raising=False)
    done = run(*argv)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_an_empty_token_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDRCHECK_TOKEN", "")
    done = run("pingpong", "node2")
    assert done.code == 2
    assert done.err.startswith("no token: set GDRCHECK_TOKEN")


def test_a_name_that_does_not_resolve_has_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("GDRCHECK_TOKEN", TOKEN)
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with default_signals():
        done = run("pingpong", "node2")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("node2: the name does not resolve: Name or service not known; give")


def test_a_name_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(PATIENCE_S))
    with pytest.raises(InputError, match=r"node2: the name did not resolve within 0.05 s"):
        addresses_of("node2", 0.05)
    over.set()


def test_addresses_are_those_of_the_resolver_with_ipv4_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::2", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert addresses_of("node2", PATIENCE_S) == ("10.0.0.2", "fd00::2")


@contextmanager
def default_signals() -> Iterator[None]:
    """Gives the handlers of this process back."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("node2", "--listen"),
        ("node2", "-s", "0"),
        ("node2", "-s", "17M"),
        ("node2", "-s", "64KiB"),
        ("node2", "-n", "0"),
        ("node2", "-m", "9000"),
        ("node2", "-T", "256"),
        ("node2", "-i", "0"),
        ("node2", "--modes", "gpu-cpu"),
        ("node2", "--operations", "WRIT"),
        ("node2", "-d", "../mlx5_0"),
        ("node2", "--timeout", "0"),
        ("node2", "--timeout", "nan"),
    ],
)
def test_wrong_use_is_exit_code_2(argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("pingpong", *argv)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("",), "'': expected a name or an address of the other machine"),
        (("root@node2",), "'root@node2': expected a name or an address of the other machine, with"),
        (("node2:18600",), "its port goes to -p 18600"),
        (("10.0.0.2:18600",), "its port goes to -p 18600"),
        (("[fd00::2]:18600",), "its port goes to -p 18600"),
        (("[fd00::2]",), "without brackets"),
        (("http://node2",), "'http://node2': expected a name or an address"),
        (("two words",), "'two words': expected a name or an address"),
        (("--listen", "node2"), "'node2': expected an IP address of this machine"),
        (("--listen", ""), "'': expected an IP address of this machine"),
        (("--listen", "10.0.0.300"), "'10.0.0.300': expected an IP address of this machine"),
        (("node2", "-s", "1M,,2M"), "'1M,,2M': a size is missing beside a comma; expected such"),
        (("node2", "--modes", "host-host,"), "a mode is missing beside a comma"),
        (("node2", "-T", "0x100"), "'0x100': expected 0 to 255"),
        (("node2", "--itreations", "3"), "unrecognized arguments: --itreations 3"),
    ],
)
def test_wrong_use_is_told_with_the_usage_of_the_command(
    argv: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["pingpong", *argv])
    err = capsys.readouterr().err
    assert said in err
    assert err.startswith("usage: gdrcheck pingpong [options] (--listen [ADDRESS] | HOST)")


@pytest.mark.parametrize(
    "host", ["node2", "node-2.example.net", "node2.", "n", "10.0.0.2", "fd00::2", "fe80::1%eth0"]
)
def test_a_host_is_a_name_or_an_address(host: str) -> None:
    assert option_types.host(host) == host


@given(st.text(max_size=20))
def test_a_host_is_taken_as_it_is_or_refused(text: str) -> None:
    try:
        taken = option_types.host(text)
    except argparse.ArgumentTypeError:
        return
    assert taken == text != ""
    assert not set(text) & set("@/[] \t\n")


def test_all_modes_have_a_word() -> None:
    assert option_types.modes("all") == option_types.modes(",".join(MODES)) == MODES


@pytest.mark.parametrize("token", ["short", "white space in the middle of it", "x" * 2000])
def test_a_token_that_is_none_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDRCHECK_TOKEN", token)
    done = run("pingpong", "node2")
    assert done.code == 2
    assert done.err.startswith("GDRCHECK_TOKEN: ")
