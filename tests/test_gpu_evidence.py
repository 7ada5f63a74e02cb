"""What `make test-gpu` writes into docs/evidence.md: never more than what ran."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck import probes
from gdrcheck.facts import Facts, Unreadable
from tests.captured.machines import MACHINES
from tests.gpu.evidence import (
    BEGIN,
    END,
    EvidenceError,
    Machine,
    Run,
    machine_of,
    updated,
)

ROOT = Path(__file__).resolve().parents[1]
PAGE = f"# What has run\n\nby hand\n\n{BEGIN}\n{END}\n\n## Has not run\n\n| a | b |\n|---|---|\n"
RUN = Run(
    machine=Machine("1 x NVIDIA H200", "580.159.04, open module", "13.0", "6.12.1"),
    python="3.12.3",
    bindings="13.3.1",
    gdrcheck="0.1.0",
    date="2026-11-30",
    passed=40,
    failed=(),
    skipped=0,
    measured={"export of 64 KiB": "14 µs, plain"},
)


def dgx(root: Path) -> Facts:
    return probes.collect("node1", MACHINES["dgx"]().write(root / "dgx"))


def rows(page: str) -> list[str]:
    """The rows of both tables, without their heads."""
    section = page.split(BEGIN)[1].split(END)[0]
    return [line for line in section.splitlines() if line.startswith("| 1 x")]


def test_a_run_becomes_one_row_in_each_table() -> None:
    page = updated(PAGE, RUN)
    ran, times = rows(page)
    kind = "| 1 x NVIDIA H200 | 580.159.04, open module | "
    assert ran == f"{kind}13.0 | 6.12.1 | 3.12.3 | 13.3.1 | 0.1.0 | 2026-11-30 | 40 passed |"
    assert times == f"{kind}13.3.1 | 14 µs, plain | - | - | - | - | - |"


def test_gpus_that_were_measured_with_each_other_have_a_row_in_a_third_table() -> None:
    measured = {"pairs of GPUs": "1", "copy one way": "390 to 391 GB/s"}
    machine = replace(RUN.machine, gpus="2 x NVIDIA H200")
    both = replace(RUN, machine=machine, measured=measured)
    page = updated(updated(PAGE, RUN), both)
    row = "| 2 x NVIDIA H200 | 580.159.04, open module | 13.3.1 | 1 | 390 to 391 GB/s |"
    assert page.count(row) == 1
    assert updated(page, both) == page
    assert row in updated(page, RUN)
    # A later run that did not measure them takes the row away.
    assert row not in updated(page, replace(both, measured={}))


def test_the_same_run_again_changes_nothing() -> None:
    once = updated(PAGE, RUN)
    assert updated(once, RUN) == once


def test_the_same_kind_of_machine_replaces_its_row() -> None:
    later = replace(RUN, date="2026-12-24", passed=41, python="3.12.4", measured={})
    page = updated(updated(PAGE, RUN), later)
    assert len(rows(page)) == 2
    assert "2026-11-30" not in page
    assert "14 µs" not in page


@pytest.mark.parametrize(
    "other",
    [
        replace(RUN, bindings="12.9.10"),
        replace(RUN, machine=replace(RUN.machine, gpus="2 x NVIDIA H200")),
        replace(RUN, machine=replace(RUN.machine, driver="580.159.04, proprietary module")),
    ],
)
def test_another_kind_of_machine_gets_its_own_row(other: Run) -> None:
    page = updated(updated(PAGE, RUN), other)
    assert len(page.split("40 passed")) == 3
    assert page == updated(updated(PAGE, other), RUN)


def test_a_failed_run_replaces_a_passed_one_and_names_what_failed() -> None:
    failed = replace(RUN, passed=37, failed=("test_a", "test_b", "test_c", "test_d"))
    (ran, _) = rows(updated(updated(PAGE, RUN), failed))
    assert "40 passed" not in ran
    assert "| **4 FAILED** (test_a, test_b, test_c and 1 more), 37 passed |" in ran


def test_a_run_without_tests_does_not_say_passed() -> None:
    assert replace(RUN, passed=0).result == "nothing ran"


def test_what_stands_outside_the_marks_is_kept() -> None:
    page = updated(PAGE, RUN)
    assert page.startswith(PAGE.split(BEGIN)[0])
    assert page.endswith(PAGE.split(END)[1])


@pytest.mark.parametrize("page", ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", PAGE + PAGE])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(EvidenceError, match="two lines, once each"):
        updated(page, RUN)


@given(st.text(), st.text(min_size=1))
def test_no_text_breaks_a_row(gpus: str, bindings: str) -> None:
    odd = replace(RUN, machine=replace(RUN.machine, gpus=gpus), bindings=bindings)
    once = updated(PAGE, odd)
    assert updated(once, odd) == once
    assert once.count(BEGIN) == once.count(END) == 1


def test_the_page_of_this_repository_can_be_written() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    once = updated(page, RUN)
    assert updated(once, RUN) == once


def test_the_machine_is_described_from_its_facts(tmp_path: Path) -> None:
    facts = dgx(tmp_path)
    machine = machine_of(facts)
    assert machine.gpus == "8 x NVIDIA H100 80GB HBM3"
    assert machine.driver.endswith(", open module")


def test_an_emulated_gpu_is_no_evidence(tmp_path: Path) -> None:
    facts = dgx(tmp_path)
    with pytest.raises(EvidenceError, match="emulated"):
        machine_of(facts.model_copy(update={"emulated": True}))


def test_a_machine_without_a_gpu_is_no_evidence(tmp_path: Path) -> None:
    facts = dgx(tmp_path)
    with pytest.raises(EvidenceError, match="no driver"):
        machine_of(facts.model_copy(update={"nvml": Unreadable(unreadable="no driver")}))


# In place of the probes of this machine, in a session of its own.
FACTS = """
import os
from gdrcheck import probes
from gdrcheck.facts import Facts
probes.collect = lambda node: Facts.model_validate_json(open(os.environ["FACTS"]).read())
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "facts.json").write_text(dgx(tmp_path).model_dump_json())
    (tmp_path / "told_facts.py").write_text(FACTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "evidence.md").write_text(PAGE)
    return Session(tmp_path)


class Session:
    """Runs tests with the plugin, as scripts/test-gpu does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page = folder / "evidence.md"

    def run(self, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "test_it.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "told_facts"]
        command += ["-p", "tests.gpu.recording", "--evidence", str(self.page), *arguments]
        paths = f"{self.folder}{os.pathsep}{ROOT}"
        return subprocess.run(
            [*command, "-p", "no:cacheprovider", "test_it.py"],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": paths, "FACTS": str(self.folder / "facts.json")},
            capture_output=True,
            text=True,
            timeout=120,
        )


MEASURES = """
def test_export(record_property):
    record_property("export of 64 KiB", "15 µs, plain")
    record_property("of no interest", "1")
"""
FAILS = "def test_wrong():\n    assert False\n"
BREAKS = """
import pytest
@pytest.fixture
def broken():
    yield
    raise OSError("the GPU went away")
def test_then_gone(broken):
    pass
"""


def test_a_run_that_passed_is_written(session: Session) -> None:
    done = session.run(MEASURES)
    assert done.returncode == 0, done.stdout + done.stderr
    page = session.page.read_text()
    assert "| 1 passed |" in page
    assert "| 15 µs, plain | - |" in page
    assert "of no interest" not in page
    assert "8 x NVIDIA H100 80GB HBM3" in done.stdout


@pytest.mark.parametrize(
    ("tests", "name"), [(FAILS, "test_wrong"), (BREAKS, "test_then_gone")], ids=["body", "teardown"]
)
def test_a_run_that_failed_is_written_as_failed(session: Session, tests: str, name: str) -> None:
    assert session.run(MEASURES + tests).returncode == 1
    assert f"| **1 FAILED** ({name}), 1 passed |" in session.page.read_text()


@pytest.mark.parametrize(
    ("tests", "arguments"),
    [
        (MEASURES + FAILS, ("-k", "export")),
        (FAILS + MEASURES, ("-x",)),
        ("import there_is_no_such_module\n", ()),
        ("", ()),
    ],
    ids=["filtered", "cut short", "not collected", "no test"],
)
def test_what_is_not_a_whole_run_is_not_written(
    session: Session, tests: str, arguments: tuple[str, ...]
) -> None:
    done = session.run(tests, *arguments)
    assert done.returncode != 0
    assert "nothing was written" in done.stdout
    assert session.page.read_text() == PAGE


def test_a_page_that_cannot_be_written_fails_the_run(session: Session) -> None:
    session.page.write_text("no marks")
    assert session.run(MEASURES).returncode == 1


def test_an_emulated_gpu_fails_the_run(session: Session) -> None:
    facts = session.folder / "facts.json"
    facts.write_text(facts.read_text().replace('"emulated":false', '"emulated":true'))
    done = session.run(MEASURES)
    assert done.returncode == 1
    assert "no evidence of any hardware" in done.stdout
    assert session.page.read_text() == PAGE


def test_a_folder_without_wheels_is_one_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "test-gpu"],
        env=os.environ | {"PYTHON": sys.executable, "WHEELS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert f"WHEELS={tmp_path}: no wheels" in said
