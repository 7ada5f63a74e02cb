"""What libibverbs says: recorded, or by a child that fails, hangs, crashes or lacks pyverbs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import Unreadable
from gdrcheck.probes import survey
from tests.probes import trees

RECORD = "run/gdrcheck/recorded/verbs.json"
TOGETHER = Unreadable(unreadable="survey: ended by SIGSEGV")


def answer(name: str, **changes: object) -> dict[str, object]:
    ports = [{"number": 1, "active_mtu_bytes": 4096, "max_mtu_bytes": 4096}]
    return {"name": name, "error": None, "error_number": None, "ports": ports} | changes


def test_a_tree_has_its_recorded_answer(tmp_path: Path) -> None:
    trees.pci_nic(tmp_path, "mlx5_0", "0000:19:00.0", "eth1")
    found = survey.read_survey(tmp_path)
    assert isinstance(found, Unreadable)
    assert "verbs.json" in found.unreadable
    shut = answer("mlx5_1", error="open mlx5_1: EPERM", error_number=1, ports=[])
    trees.write(tmp_path, {RECORD: json.dumps([answer("mlx5_0"), shut])})
    found = survey.read_survey(tmp_path)
    assert not isinstance(found, Unreadable)
    assert (found[0].ports[0].active_mtu_bytes, found[1].error_number) == (4096, 1)


def test_without_a_device_nothing_is_asked(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    assert survey.read_survey(tmp_path) == ()
    assert isinstance(survey.read_survey(tmp_path / "nowhere"), Unreadable)


@pytest.mark.parametrize(
    "text", ["", "[", "[1]", '{"name": 1}', '[{"name": "a"}]', "[" * 100_000, "\0"]
)
def test_an_answer_of_unknown_form_is_unreadable(text: str) -> None:
    found = survey.parsed(text.encode())
    assert isinstance(found, Unreadable)
    assert found.unreadable.startswith("answer of libibverbs")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_survived(data: bytes) -> None:
    assert isinstance(survey.parsed(data), tuple | Unreadable)


def child(path: Path, body: str) -> tuple[str, ...]:
    """A command that runs ``body`` with ``name``, the device that it is asked about."""
    program = "import json, os, sys, time\nname = sys.argv[1]\n" + textwrap.dedent(body)
    script = path / "child.py"
    script.write_text(program)
    return (sys.executable, str(script))


def test_a_device_that_hangs_or_crashes_does_not_take_the_others_along(
    tmp_path: Path,
) -> None:
    command = child(
        tmp_path,
        """
        print("open", name, file=sys.stderr, flush=True)
        if name == "mlx5_1":
            time.sleep(600)
        if name == "mlx5_2":
            os.abort()
        print(json.dumps([{"name": name, "error": None, "error_number": None, "ports": []}]))
        """,
    )
    found = survey.one_by_one(["mlx5_0", "mlx5_1", "mlx5_2"], command, TOGETHER, 5)
    assert not isinstance(found, Unreadable)
    well, hangs, crashes = found
    assert (well.name, well.error) == ("mlx5_0", None)
    assert hangs.error is not None
    assert "no answer within 5 s, at: open mlx5_1" in hangs.error
    assert crashes.error is not None
    assert "SIGABRT" in crashes.error


def test_when_no_device_answers_libibverbs_as_a_whole_did_not(tmp_path: Path) -> None:
    command = child(tmp_path, "sys.exit('no module named gdrcheck')")
    assert survey.one_by_one(["mlx5_0", "mlx5_1"], command, TOGETHER, 60) == TOGETHER


STAND_IN = {
    "pyverbs/__init__.py": "",
    "pyverbs/pyverbs_error.py": """
class PyverbsError(Exception):
    pass

class PyverbsRDMAError(PyverbsError):
    def __init__(self, text, code=-1):
        self.error_code = code
        super().__init__(text)
""",
    "pyverbs/device.py": """
from types import SimpleNamespace
from pyverbs.pyverbs_error import PyverbsRDMAError

print("a provider that chatters")

class Context:
    def __init__(self, name):
        self.name = name
        if name == "shut":
            raise PyverbsRDMAError("Failed to open device shut", 13)
        if name == "unknown":
            raise PyverbsRDMAError("Failed to find device unknown")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def query_device(self):
        return SimpleNamespace(phys_port_cnt=2)

    def query_port(self, number):
        if number == 2 and self.name == "half":
            raise PyverbsRDMAError("Failed to query port", -5)
        return SimpleNamespace(active_mtu=3, max_mtu=5)
""",
}


def asked(root: Path, *names: str) -> bytes:
    """What the child prints about ``names``, with what lies below ``root`` for pyverbs."""
    return subprocess.run(
        [sys.executable, "-P", "-S", "-m", "gdrcheck.verbs.survey", *names],
        env={"PYTHONPATH": f"{root}:{Path(__file__).parents[2]}"},
        check=True,
        capture_output=True,
        timeout=60,
    ).stdout


def test_the_child_asks_each_device_and_keeps_errnos(tmp_path: Path) -> None:
    trees.write(tmp_path, STAND_IN)
    found = survey.parsed(asked(tmp_path, "shut", "half", "unknown", "well"))
    assert not isinstance(found, Unreadable)
    shut, half, unknown, well = found
    assert (shut.error, shut.error_number) == ("open shut: EACCES (Permission denied)", 13)
    assert (half.error, half.error_number) == (
        "query port 2 of half: EIO (Input/output error)",
        5,
    )
    assert [port.number for port in half.ports] == [1]
    assert (unknown.error, unknown.error_number) == (
        "open unknown: Failed to find device unknown",
        None,
    )
    assert (well.error, well.error_number, well.ports[1].number) == (None, None, 2)
    assert (well.ports[0].active_mtu_bytes, well.ports[0].max_mtu_bytes) == (1024, 4096)


def test_the_child_says_that_pyverbs_is_not_installed(tmp_path: Path) -> None:
    assert survey.parsed(asked(tmp_path, "mlx5_0")) == Unreadable(
        unreadable="pyverbs is not installed"
    )


def test_the_child_says_that_pyverbs_is_broken(tmp_path: Path) -> None:
    trees.write(tmp_path, STAND_IN | {"pyverbs/device.py": "import no_such_library\n"})
    found = survey.parsed(asked(tmp_path, "mlx5_0"))
    assert isinstance(found, Unreadable)
    assert "no_such_library" in found.unreadable
