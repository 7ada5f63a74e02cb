"""What docs/ci.md tells Jenkins, GitLab and GitHub to do, done as far as it goes without them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml
from yamllint import linter
from yamllint.config import YamlLintConfig

from benchmarks import made_up
from benchmarks.ci_readers.__main__ import difference, read
from gdrcheck.cli import main
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.prepare import LATEST
from gdrcheck.results import junit_limits
from gdrcheck.results.data import DATA_FILE
from gdrcheck.results.incoming import JUNIT_FILE
from gdrcheck.results.merge import SUMMARY_FILE, merge
from tests.results.junit_schema import complaints
from tests.results.trees import fill, port_down, two_nodes

PATH = Path(__file__).resolve().parents[2] / "docs" / "ci.md"
PAGE = PATH.read_text(encoding="utf-8")
RUN_FOLDER = "20260102T030405Z-0a1b2c"


def blocks(kind: str) -> list[str]:
    """The code on the page of this kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def scripts() -> dict[str, str]:
    """The shell lines of GitLab's job and of GitHub's, as their runners put them together."""
    gitlab, github = map(yaml.safe_load, blocks("yaml"))
    (run,) = [step["run"] for step in github["jobs"]["validate"]["steps"] if "run" in step]
    return {"gitlab": "\n".join(gitlab["gdrcheck"]["script"]), "github": run}


@pytest.mark.parametrize("block", blocks("yaml"), ids=["gitlab", "github"])
def test_the_yaml_is_clean(block: str) -> None:
    rules = "{document-start: disable, truthy: {check-keys: false}}"
    config = YamlLintConfig(f"{{extends: default, rules: {rules}}}")
    assert [str(problem) for problem in linter.run(block, config)] == []


def test_all_systems_look_at_the_same_files() -> None:
    (jenkins,), (gitlab_text, github_text) = blocks("groovy"), blocks("yaml")
    gitlab, github = yaml.safe_load(gitlab_text)["gdrcheck"], yaml.safe_load(github_text)
    uses: dict[str, dict[str, Any]] = {
        step["uses"].partition("@")[0]: step.get("with", {})
        for step in github["jobs"]["validate"]["steps"]
        if "uses" in step
    }
    cases = f"results/2*/{JUNIT_FILE}"
    assert f"junit testResults: '{cases}'" in jenkins
    assert gitlab["artifacts"]["reports"]["junit"] == cases
    assert uses["EnricoMi/publish-unit-test-result-action/linux"]["files"] == cases
    assert uses["actions/upload-artifact"]["path"] == "results/2*/"
    assert gitlab["artifacts"]["when"] == "always"
    assert gitlab["allow_failure"]["exit_codes"] == [Verdict.INCOMPLETE.exit_code]
    for text in (jenkins, *scripts().values()):
        commands = ("rm -rf results", "ansible-playbook validate.yml", f"merge results/{LATEST}")
        places = [text.index(one) for one in commands]
        assert places == sorted(places)
    assert f"if (verdict == {Verdict.INCOMPLETE.exit_code})" in jenkins


def test_all_systems_say_why_there_is_no_verdict() -> None:
    (jenkins,) = blocks("groovy")
    summary = f"results/{LATEST}/{SUMMARY_FILE}"
    for text, test in (
        (jenkins, "fileExists('{}')"),
        *((one, "test -e {}") for one in scripts().values()),
    ):
        lines = (
            test.format(f"results/{LATEST}"),
            "no run: see the output of the playbook above",
            f"rm -f {summary}",
            f"gdrcheck merge results/{LATEST}",
            test.format(summary),
            "no verdict: gdrcheck merge ended with ",
            f"gdrcheck lists results/{LATEST}",
            f"gdrcheck compare accepted.json.gz results/{LATEST}",
            "though the verdict is PASS",
        )
        places = [text.index(one) for one in lines]
        assert places == sorted(places)


def test_the_page_says_which_file_the_steps_are() -> None:
    head = PAGE.partition("## What the file holds")[0]
    for name in ("Jenkinsfile", ".gitlab-ci.yml", ".github/workflows/gdrcheck.yml"):
        assert f"`{name}`" in head


def test_the_steps_of_jenkins_are_closed_again() -> None:
    (text,) = blocks("groovy")
    code = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "''", text)
    opened: list[str] = []
    for letter in code:
        if letter in "([{":
            opened.append({"(": ")", "[": "]", "{": "}"}[letter])
        elif letter in ")]}":
            assert opened.pop() == letter
    assert opened == []
    assert not set("'\"") & set(code.replace("''", ""))


def test_the_exit_codes_are_those_of_the_program() -> None:
    told = re.findall(r"^\| (\d) \| ([A-Z]{4,})", PAGE, re.MULTILINE)
    assert [(int(code), verdict) for code, verdict in told] == [
        (verdict.exit_code, str(verdict))
        for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.INCOMPLETE)
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (junit_limits.MAX_CASES, "Above {:,} cases"),
        (junit_limits.MAX_ELEMENTS, "{:,} elements or"),
        (junit_limits.MAX_CHARS // 1_000_000, "{} million characters the file"),
        (junit_limits.MAX_BAD_OF_SUITE, "at most {} of each"),
        (junit_limits.MAX_BAD, "room for {:,} each"),
        (junit_limits.MAX_BAD_CHARS // 1_000_000, "each, {} million characters"),
        (junit_limits.MAX_GOOD_OF_SUITE, "more than {:,} good cases"),
    ],
)
def test_the_limits_are_those_of_the_program(number: int, words: str) -> None:
    assert words.format(number) in " ".join(PAGE.split())


def test_the_files_named_are_written(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    fill(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "gdrcheck", "merge", str(tmp_path)], capture_output=True, check=True
    )
    assert done.stdout
    named = {JUNIT_FILE, SUMMARY_FILE, DATA_FILE, "report.html"}
    assert named <= {path.name for path in tmp_path.iterdir()}
    assert all(name in PAGE for name in named)


# --- the shell lines ----------------------------------------------------------------------------


def run_of(folder: Path, outcome: Outcome) -> Path:
    """The results of a run in which one case came out so."""
    one, _two = two_nodes(folder)
    found = [port_down()] if outcome is Outcome.FAILED else []
    one.case("x[node1/rxe0]", outcome, message="it", findings=found)
    fill(folder)
    return folder


def job(system: str, work: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """What the shell lines of ``system`` do in ``work``; its summary is ``programs/summary.md``."""
    program(programs, "gdrcheck", f'exec {sys.executable} -m gdrcheck "$@"')
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "GITHUB_STEP_SUMMARY": str(programs / "summary.md"),
    }
    bash = shutil.which("bash") or "/bin/bash"
    return subprocess.run(
        [bash, "-e", "-o", "pipefail", "-c", scripts()[system]],
        cwd=work, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def program(folder: Path, name: str, text: str) -> None:
    """A program in ``folder``."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("system", ["gitlab", "github"])
@pytest.mark.parametrize(
    ("outcome", "playbook", "expected"),
    [
        (Outcome.PASSED, 0, {"gitlab": 0, "github": 0}),
        # The verdict is PASS, but something else went wrong.
        (Outcome.PASSED, 4, {"gitlab": 1, "github": 1}),
        (Outcome.FAILED, 2, {"gitlab": 1, "github": 1}),
        (Outcome.ERROR, 2, {"gitlab": 2, "github": 1}),
        # The run was refused: only an old one was there before.
        (None, 2, {"gitlab": 1, "github": 1}),
    ],
)
def test_a_job_ends_as_the_verdict_says(
    tmp_path: Path, system: str, outcome: Outcome | None, playbook: int, expected: dict[str, int]
) -> None:
    work, programs = tmp_path / "work", tmp_path / "programs"
    programs.mkdir()
    old = run_of(work / "results" / "20250101T000000Z-000000", Outcome.PASSED)
    (work / "results" / LATEST).symlink_to(old.name)
    made = ":"
    if outcome is not None:
        run = run_of(tmp_path / RUN_FOLDER, outcome)
        made = f"mkdir results && cp -r {run} results && ln -s {run.name} results/{LATEST}"
    program(programs, "ansible-playbook", f"{made}; exit {playbook}")
    done = job(system, work, programs)
    assert done.returncode == expected[system], done.stderr
    if outcome is None:
        assert "no run: see the output of the playbook above" in done.stdout
    else:
        assert "verdict: " in done.stdout
        assert system == "gitlab" or "    verdict: " in (programs / "summary.md").read_text()
        assert (work / "results" / LATEST / "lists" / "bad.txt").is_file()
    told = f"ansible-playbook ended with {playbook} though the verdict is PASS"
    assert (told in done.stdout) == (outcome is Outcome.PASSED and playbook != 0)


@pytest.mark.parametrize("system", ["gitlab", "github"])
def test_input_that_the_merge_refuses_fails_the_job_in_words(tmp_path: Path, system: str) -> None:
    work, programs = tmp_path / "work", tmp_path / "programs"
    programs.mkdir()
    work.mkdir()
    run = run_of(tmp_path / RUN_FOLDER, Outcome.PASSED)
    # As the playbook left it: judged, and damaged since then.
    merge(run, None)
    (run / "run.json").write_text("{")
    made = f"mkdir results && cp -r {run} results && ln -s {run.name} results/{LATEST}"
    program(programs, "ansible-playbook", made)
    done = job(system, work, programs)
    assert done.returncode == 1
    assert "no verdict: gdrcheck merge ended with 2;" in done.stdout
    assert "run.json" in done.stderr


@pytest.mark.parametrize("system", ["gitlab", "github"])
def test_a_job_tells_what_is_newly_failing_and_the_verdict_decides(
    tmp_path: Path, system: str
) -> None:
    work, programs = tmp_path / "work", tmp_path / "programs"
    programs.mkdir()
    work.mkdir()
    accepted = run_of(tmp_path / "20250101T000000Z-000000", Outcome.PASSED)
    merge(accepted, None)
    assert main(["baseline", str(accepted), str(work / "accepted.json.gz")]) == 0
    run = run_of(tmp_path / RUN_FOLDER, Outcome.FAILED)
    made = f"mkdir results && cp -r {run} results && ln -s {run.name} results/{LATEST}"
    program(programs, "ansible-playbook", f"{made}; exit 2")
    done = job(system, work, programs)
    assert done.returncode == Verdict.FAIL.exit_code
    assert "newly failing" in done.stdout


# --- the libraries that are no Python ----------------------------------------------------------


def test_a_reader_that_sees_something_else_is_told(tmp_path: Path) -> None:
    wanted = [("node1.ports", "x", "error", "blocked"), ("node1.ports", "y", None, None)]
    assert difference(wanted, list(wanted)) == ""
    assert difference(wanted, wanted[:1]) == "1 cases instead of 2"
    assert "'error', None) instead of" in difference(wanted, [(*wanted[0][:3], None), wanted[1]])
    program(tmp_path, "good", """echo 'reader 1.0'; echo '["a.b", "x", null, null]'""")
    program(tmp_path, "bad", "echo 'no such library' >&2; exit 1")
    assert read((str(tmp_path / "good"),), PATH) == ("reader 1.0", [("a.b", "x", None, None)])
    with pytest.raises(RuntimeError, match="no such library"):
        read((str(tmp_path / "bad"),), PATH)


# --- the file -----------------------------------------------------------------------------------


def test_a_made_up_run_by_the_library_of_the_github_action(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_up.write(run, 14)
    summary = merge(run, None)
    xml = JUnitXml.fromfile(str(run / JUNIT_FILE))
    assert complaints(xml._elem) == []
    cases = [case for suite in xml for case in suite]
    assert len({(case.classname, case.name) for case in cases}) == len(cases) == xml.tests
    kinds = [type(case.result[0]).__name__ for case in cases if case.result]
    assert (kinds.count("Failure"), kinds.count("Error")) == (xml.failures, xml.errors)
    assert all(
        case.result[0].text.startswith(case.result[0].message) for case in cases if case.result
    )
    assert all(case.system_out is None and case.system_err is None for case in cases)
    (found,) = {one.finding.code: one for one in summary.findings}.values()
    told = {one.name: one.value for suite in xml for one in suite.properties()}
    (bad,) = [
        name.rpartition(": ")[0] for name, value in told.items() if value == found.finding.code
    ]
    assert told[f"{bad}: observed"] == found.finding.observed
    assert told[f"{bad}: expected"] == found.finding.expected
