"""The folder of a run: what a merge keeps there for the next one, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrcheck.cli import main
from gdrcheck.findings.model import Where
from gdrcheck.outcome import InputError, Verdict
from gdrcheck.results import folder
from gdrcheck.results.merge import merge
from gdrcheck.results.states import SeenState, SeenStates
from tests.node.support import run_spec
from tests.results.trees import fill, port_down, seen, two_nodes, write_run

EXPECTED = "expected a folder of results, results/RUN-ID, with run.json"


def test_a_merge_without_states_keeps_what_the_playbook_saw(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    lost = SeenState(state="unreachable", reason="ssh timed out")
    refused = SeenState(state="refused", reason="busy", findings=(port_down("node1"),))
    told = SeenStates(nodes={"node1": refused, "node2": lost})
    first = merge(tmp_path, told)
    junit = (tmp_path / "junit.xml").read_bytes()
    again = merge(tmp_path, None)
    assert again == first
    assert again.nodes["node2"].reason == "ssh timed out"
    assert "PORT-NOT-ACTIVE" in [entry.finding.code for entry in again.findings]
    assert (tmp_path / "junit.xml").read_bytes() == junit


def test_check_mode_is_kept(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    told = seen(node1="ok", node2="ok").model_copy(update={"check_mode": True})
    merge(tmp_path, told)
    assert merge(tmp_path, None).check_mode


def test_states_that_are_given_replace_the_kept_ones(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    fill(tmp_path)
    assert merge(tmp_path, seen(node1="ok", node2="timed out")).verdict is Verdict.INCOMPLETE
    assert merge(tmp_path, seen(node1="ok", node2="ok")).verdict is Verdict.PASS
    assert merge(tmp_path, None).verdict is Verdict.PASS


def test_without_any_states_none_are_kept(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    fill(tmp_path)
    assert merge(tmp_path, None).verdict is Verdict.PASS
    assert not (tmp_path / "states.json").exists()


def test_kept_states_are_whole_and_of_one_form(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    one, other = SeenState(state="ok"), SeenState(state="timed out", reason="\x9b nö")
    merge(tmp_path, SeenStates(nodes={"node2": other, "node1": one}))
    written = (tmp_path / "states.json").read_bytes()
    assert json.loads(written) == {
        "check_mode": False,
        "nodes": {
            "node1": {"state": "ok", "reason": "", "findings": []},
            "node2": {"state": "timed out", "reason": "\x9b nö", "findings": []},
        },
    }
    assert written.isascii()
    merge(tmp_path, SeenStates(nodes={"node1": one, "node2": other}))
    assert (tmp_path / "states.json").read_bytes() == written


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "states.json: "),
        ('{"nodes": {"node1": {"state": "asleep"}}}', r"states.json: nodes\.node1\.state"),
        ('{"nodes": {"node9": {"state": "ok"}}}', "states.json: nodes that are not in the run"),
    ],
)
def test_damaged_states_are_never_passed_over(tmp_path: Path, content: str, said: str) -> None:
    two_nodes(tmp_path)
    (tmp_path / "states.json").write_text(content)
    with pytest.raises(InputError, match=said):
        merge(tmp_path, None)
    assert not (tmp_path / "summary.json").exists()


def test_kept_states_that_are_a_link_or_a_folder_are_refused(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    (tmp_path / "states.json").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"states\.json cannot be read"):
        merge(tmp_path, None)
    (tmp_path / "states.json").unlink()
    (tmp_path / "states.json").mkdir()
    with pytest.raises(InputError, match=r"states\.json cannot be read"):
        merge(tmp_path, None)


def test_states_that_are_refused_are_not_kept(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    with pytest.raises(InputError, match="node9"):
        merge(tmp_path, seen(node9="ok"))
    assert not (tmp_path / "states.json").exists()


def test_the_command_keeps_states_for_a_merge_with_more_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, extra, states = tmp_path / "run", tmp_path / "extra", tmp_path / "seen.json"
    one, _two = two_nodes(root)
    one.case("b[node1]", where=Where(node="node1"))
    states.write_text('{"nodes": {"node2": {"state": "timed out", "reason": "after 9 s"}}}')
    assert main(["merge", f"--states={states}", str(root)]) == 2
    extra.mkdir()
    (extra / "dcgmi.xml").write_text('<testsuite><testcase name="memory"/></testsuite>')
    capsys.readouterr()
    assert main(["merge", f"--extra-junit={extra}", "--json", str(root)]) == 2
    again = json.loads(capsys.readouterr().out)
    assert again["nodes"]["node2"]["reason"] == "after 9 s"
    assert main(["merge", "--states=", str(root)]) == 2
    assert "--states" in capsys.readouterr().err


def test_only_the_secret_is_removed(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    outside, others = tmp_path / "outside", ("secret.txt", "nodes/secret")
    for name in ("secret", *others):
        (tmp_path / name).write_text("s")
    merge(tmp_path, None)
    assert not (tmp_path / "secret").exists()
    assert all((tmp_path / name).exists() for name in others)
    outside.write_text("mine")
    (tmp_path / "secret").symlink_to(outside)
    merge(tmp_path, None)
    assert outside.exists()
    assert not (tmp_path / "secret").is_symlink()
    (tmp_path / "secret").mkdir()
    merge(tmp_path, None)
    assert (tmp_path / "secret").is_dir()


def refusal(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of ``folder``: one line, which names it once."""
    assert main(["merge", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.count(str(folder)) == 1
    assert EXPECTED in said
    return said.removeprefix(f"{folder}: ")


def test_what_is_no_folder_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "none", capsys) == f"no such folder; {EXPECTED}\n"
    assert refusal(tmp_path / "file", capsys) == f"not a folder; {EXPECTED}\n"
    assert refusal(tmp_path, capsys) == f"holds no run.json; {EXPECTED}\n"
    (tmp_path / "run.json").symlink_to("/etc/passwd")
    assert refusal(tmp_path, capsys).startswith("run.json cannot be read: ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "run.json is not a JSON object"),
        ("[]", "run.json is not a JSON object"),
        ('{"run_id": 1', "run.json is not a JSON object"),
        ('{"x\\ny": 1}', "run.json has keys that are missing, unknown or wrong: run_id, "),
    ],
)
def test_a_run_that_is_broken(
    tmp_path: Path, content: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(content)
    said = refusal(tmp_path, capsys)
    assert said.startswith(problem)
    assert "Input" not in said
    assert "Field" not in said


def test_wrong_keys_of_a_run_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, run_spec("node1"))
    spec = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**spec, "x\ny": 1}))
    assert refusal(tmp_path, capsys).startswith(
        "run.json has keys that are missing, unknown or wrong: x\\ny; "
    )


def test_two_merges_of_a_folder_are_not_done_at_once(tmp_path: Path) -> None:
    with (
        folder.alone(tmp_path),
        pytest.raises(InputError, match="another process is merging it"),
        folder.alone(tmp_path),
    ):
        pytest.fail("both had the folder")
    with folder.alone(tmp_path):
        pass
