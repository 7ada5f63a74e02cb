"""Result files of other tools that are broken, odd, or made to harm: none hides a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdrcheck.outcome import Outcome
from gdrcheck.results import foreign
from gdrcheck.results.cases import CaseResult

FAILED, ERROR, SKIPPED = Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED


def read(folder: Path, content: str | bytes) -> list[CaseResult]:
    """The cases of a file with this content."""
    data = content.encode() if isinstance(content, str) else content
    (folder / "a.xml").write_bytes(data)
    return foreign.read_directories([folder])


@pytest.mark.parametrize("encoding", ["unheard-of", "zlib_codec", "hex", "undefined", "utf-7"])
def test_encodings_that_are_none(tmp_path: Path, encoding: str) -> None:
    xml = f"<?xml version='1.0' encoding='{encoding}'?><testsuite><testcase name='a'/></testsuite>"
    (case,) = read(tmp_path, xml)
    assert (case.id, case.outcome) == ("extra_junit_read[a.xml]", ERROR)


def test_a_document_type_in_another_encoding(tmp_path: Path) -> None:
    xml = "<!DOCTYPE a [<!ENTITY x 'y'>]><testsuite><testcase name='&x;'/></testsuite>"
    (case,) = read(tmp_path, f"<?xml version='1.0' encoding='utf-16'?>{xml}".encode("utf-16"))
    assert "document type" in case.message


def test_a_flood_of_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MAX_ELEMENTS", 10)
    (case,) = read(tmp_path, f"<testsuite>{'<testcase/>' * 10}</testsuite>")
    assert "more than 10 elements" in case.message
    assert len(read(tmp_path, f"<testsuite>{'<testcase/>' * 9}</testsuite>")) == 9


@pytest.mark.parametrize(
    ("inside", "outcome"),
    [
        ("<testcase name='a' status='failed'/>", FAILED),
        ("<testcase name='a' status='run' result='Error'/>", ERROR),
        ("<testcase name='a' status='notrun' result='suppressed'/>", SKIPPED),
        ("<testcase name='a' status='run' result='completed'/>", Outcome.PASSED),
        ("<testcase name='a' status='skipped'><failure/></testcase>", FAILED),
        ("<testcase name='a'><Failure/></testcase>", ERROR),
        ("<testcase name='a'><flakyFailure/><system-err/></testcase>", Outcome.PASSED),
        ("<x:testcase name='a' xmlns:x='urn:x'><x:failure/></x:testcase>", FAILED),
        ("<testcase name='a'><x:failure xmlns:x='urn:x'/></testcase>", FAILED),
    ],
)
def test_ways_to_say_what_became_of_a_case(tmp_path: Path, inside: str, outcome: Outcome) -> None:
    (case,) = read(tmp_path, f"<testsuites><testsuite>{inside}</testsuite></testsuites>")
    assert (case.id, case.outcome) == ("a", outcome)


@pytest.mark.parametrize("tag", ["failure", "error"])
def test_a_suite_that_failed_as_a_whole(tmp_path: Path, tag: str) -> None:
    xml = f"<testsuite><{tag} message='no such device'/><testcase name='a'/></testsuite>"
    one, two = read(tmp_path, xml)
    assert (one.id, one.outcome) == ("a", Outcome.PASSED)
    assert (two.outcome, two.message) == (
        ERROR,
        "a.xml: a suite failed as a whole: no such device",
    )


def test_more_cases_than_anybody_can_count(tmp_path: Path) -> None:
    xml = f"<testsuite tests='{'9' * 5000}'><testcase name='a'/></testsuite>"
    assert read(tmp_path, xml)[-1].outcome is ERROR


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.xml")
    path.write_text("<testsuite><testcase name='a'/></testsuite>")
    (case,) = foreign.read_directories([tmp_path])
    assert (case.suite, case.outcome) == ("extra:\\udcff.xml", Outcome.PASSED)
    path.write_text("")
    (case,) = foreign.read_directories([tmp_path])
    assert case.outcome is ERROR
    case.id.encode()


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "folder.xml").mkdir()
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "link.xml").symlink_to("/etc/passwd")
    cases = foreign.read_directories([tmp_path])
    assert [case.outcome for case in cases] == [ERROR] * 3
