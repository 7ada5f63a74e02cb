"""Good nodes, bad nodes and those that are neither; and scripts that do what they say, quoted."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.cli import main
from gdrcheck.findings.model import Severity
from gdrcheck.outcome import InputError, Verdict
from gdrcheck.results import data, scheduler_files
from gdrcheck.results.blame import Suspect
from gdrcheck.results.data import KINDS
from gdrcheck.results.scheduler_lists import Sorted, sort_nodes
from tests.results.compared import Made, Pair, finding
from tests.results.trees import Merged, two_nodes

FOUR = ("n1", "n2", "n3", "n4")
PORT = "port_active[n1/mlx5_0]"


def sorted_of(made: Made) -> Sorted:
    side = made.build()
    return sort_nodes(side.summary, side.data)


def files_of(made: Made) -> dict[str, str]:
    side = made.build()
    return scheduler_files.contents(side.summary, sort_nodes(side.summary, side.data))


def broken_port(**changes: object) -> Made:
    """A port of n1 is down."""
    made = Made(
        nodes=FOUR,
        cases={"n1": {PORT: "failed"}},
        findings={PORT: finding("n1", nic="mlx5_0")},
    )
    return made.but(**changes)


def ways(one: str, other: str, kind: str = "passed") -> list[Pair]:
    """Both directions of a pair."""
    ends = f"{one}/mlx5_0", f"{other}/mlx5_0"
    return [Pair(*ends, kind), Pair(*ends[::-1], kind)]


# --- which list ---------------------------------------------------------------------------------


def test_all_nodes_of_a_run_that_passed_are_good() -> None:
    assert sorted_of(Made(nodes=FOUR)) == Sorted(good=FOUR, bad={}, unknown={})


def test_a_node_with_a_finding_is_bad_and_says_why() -> None:
    found = sorted_of(broken_port())
    assert found.bad == {"n1": ("PORT-NOT-ACTIVE at n1/mlx5_0",)}
    assert found.good == ("n2", "n3", "n4")


def test_a_warning_or_an_accepted_finding_makes_no_node_bad() -> None:
    warned = broken_port(
        cases={"n1": {PORT: "warned"}},
        findings={PORT: finding("n1", nic="mlx5_0", severity=Severity.WARN)},
    )
    assert sorted_of(warned).good == FOUR


@pytest.mark.parametrize("kind", ["error", "blocked"])
def test_a_node_that_was_not_wholly_measured_is_neither(kind: str) -> None:
    found = sorted_of(Made(nodes=FOUR, cases={"n2": {"os[n2]": kind}}))
    assert list(found.unknown) == ["n2"]
    assert "n2" not in (*found.good, *found.bad)


@pytest.mark.parametrize("state", ["unreachable", "timed out", "no result"])
def test_a_node_that_did_not_report_is_neither(state: str) -> None:
    found = sorted_of(Made(nodes=FOUR, states={"n2": state}))
    assert found.unknown["n2"][0] == f"state {state}"


def test_a_node_whose_results_are_not_all_here_is_neither() -> None:
    assert sorted_of(Made(nodes=FOUR, states={"n2": "ok"})).unknown == {
        "n2": ("not all of its results are here",)
    }


def test_a_node_of_which_nothing_was_measured_is_neither() -> None:
    cases = {"n2": {"os[n2]": "skipped", "port_active[n2/mlx5_0]": "skipped"}}
    assert sorted_of(Made(nodes=FOUR, cases=cases)).unknown == {
        "n2": ("nothing of it was measured",)
    }


def test_a_rail_that_pairs_point_to_is_bad_and_its_partners_are_good() -> None:
    pairs = [*ways("n1", "n2", "failed"), *ways("n1", "n3", "failed"), *ways("n2", "n3")]
    found = sorted_of(
        Made(
            nodes=FOUR[:3],
            pairs=pairs,
            suspects=[Suspect(place=("n1/mlx5_0",), reason="fails with two", cases=())],
        )
    )
    assert found.bad == {"n1": ("n1/mlx5_0: fails with two",)}
    assert found.good == ("n2", "n3")


def test_two_ends_that_nothing_tells_apart_are_neither() -> None:
    found = sorted_of(
        Made(
            nodes=FOUR,
            pairs=[*ways("n1", "n2", "failed"), *ways("n3", "n4")],
            suspects=[Suspect(place=("n1/mlx5_0", "n2/mlx5_0"), reason="fails", cases=())],
        )
    )
    assert (found.good, found.bad) == (("n3", "n4"), {})
    assert list(found.unknown) == ["n1", "n2"]


def test_a_finding_between_two_nodes_blames_none_by_itself() -> None:
    case = "mtu_agrees[rail0]"
    made = Made(
        nodes=FOUR,
        cases={"fleet": {case: "failed"}},
        findings={case: finding("n1", "PORT-MTU-DIFFERS", peer="n2")},
    )
    assert list(sorted_of(made).unknown) == ["n1", "n2"]


def test_a_pair_that_nothing_tells_apart_is_not_explained_by_another_fault_of_one_end() -> None:
    suspect = Suspect(place=("n1/mlx5_1", "n2/mlx5_1"), reason="fails", cases=())
    found = sorted_of(broken_port(suspects=[suspect], pairs=ways("n2", "n3")))
    assert list(found.bad) == ["n1"]
    assert list(found.unknown) == ["n2"]


def of_fleet(case: str, code: str, **changes: object) -> Sorted:
    """A comparison of the nodes fails, its finding stands at n1."""
    told = finding("n1", code).model_copy(update=changes)
    return sorted_of(Made(nodes=FOUR, cases={"fleet": {case: "failed"}}, findings={case: told}))


def test_an_image_that_differs_makes_no_node_bad_and_no_node_good() -> None:
    found = of_fleet("same_image[fleet]", "RUN-IMAGE-DIFFERS")
    assert (found.good, found.bad) == ((), {})


def test_a_tie_of_the_fleet_makes_no_node_bad_and_no_node_good() -> None:
    tied = of_fleet("mtu_agrees[rail0]", "PORT-MTU-DIFFERS", evidence={"majority": "a tie"})
    assert (tied.good, tied.bad) == ((), {})
    crossed = of_fleet("cabling[rail0]", "FABRIC-RAIL-LEAF", expected="one leaf: a tie")
    assert (crossed.good, crossed.bad) == ((), {})


def test_an_odd_node_of_the_fleet_is_bad() -> None:
    found = of_fleet("cabling[rail0]", "FABRIC-RAIL-LEAF")
    assert (list(found.bad), found.good) == (["n1"], ("n2", "n3", "n4"))


def test_what_went_wrong_with_the_run_on_a_node_is_no_fault_of_the_node() -> None:
    case = "node_locked[n1]"
    made = Made(
        nodes=FOUR,
        cases={"n1": {case: "failed"}},
        findings={case: finding("n1", "RUN-LOCKED")},
    )
    found = sorted_of(made)
    assert (list(found.unknown), found.bad) == (["n1"], {})


def test_pairs_blocked_by_a_bad_partner_are_not_held_against_a_node_that_others_prove() -> None:
    blocked = ways("n1", "n2", "blocked")
    assert "n2" in sorted_of(broken_port(pairs=blocked)).unknown
    assert "n2" in sorted_of(broken_port(pairs=[*blocked, *ways("n2", "n3")])).good


def test_a_node_that_failed_with_its_only_partner_is_proven_by_nobody() -> None:
    """Although the finding, such as a port that went down, names the partner alone."""
    pairs = ways("n1", "n2", "failed")
    assert list(sorted_of(broken_port(pairs=pairs)).unknown) == ["n2"]
    proven = sorted_of(broken_port(pairs=[*pairs, *ways("n2", "n3")]))
    assert proven.good == ("n2", "n3", "n4")


def test_a_pair_that_was_not_measured_counts_against_both() -> None:
    pairs = [*ways("n1", "n2", "error"), *ways("n1", "n3"), *ways("n2", "n4")]
    assert list(sorted_of(Made(nodes=FOUR, pairs=pairs)).unknown) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("suite", "case"),
    [
        ("fleet", "profile_promises_enough[bought]"),
        ("fleet", "pairs_measured[fleet]"),
        ("extra:nccl.xml", "all_reduce"),
    ],
)
def test_what_is_open_of_no_node_is_open_of_all(suite: str, case: str) -> None:
    assert sorted_of(Made(nodes=FOUR, cases={suite: {case: "error"}})).good == ()


def test_a_verdict_that_no_node_explains_leaves_no_node_good() -> None:
    assert sorted_of(Made(nodes=FOUR, verdict=Verdict.INCOMPLETE)).good == ()


@given(
    st.dictionaries(
        st.sampled_from([(suite, f"x{n}") for suite in (*FOUR, "fleet") for n in range(3)]),
        st.sampled_from(KINDS),
    ),
    st.lists(
        st.tuples(st.sampled_from(FOUR), st.sampled_from(FOUR), st.sampled_from(KINDS)), max_size=8
    ),
)
def test_each_node_is_in_one_list_and_only_a_pass_makes_all_good(
    kinds: dict[tuple[str, str], str], pairs: list[tuple[str, str, str]]
) -> None:
    cases: dict[str, dict[str, str]] = {}
    for (suite, check), kind in kinds.items():
        cases.setdefault(suite, {})[f"{check}[{suite}]"] = kind
    made = Made(
        nodes=FOUR,
        cases=cases,
        pairs=[Pair(f"{a}/mlx5_0", f"{b}/mlx5_0", kind) for a, b, kind in pairs if a != b],
    )
    found = sorted_of(made)
    assert sorted((*found.good, *found.bad, *found.unknown)) == sorted(FOUR)
    if made.build().summary.verdict is not Verdict.PASS:
        assert found.good != FOUR
    for name in found.good:
        own = made.build().data.suites[name]
        assert not own.keys() & {"failed", "error", "blocked"}


# --- the files ----------------------------------------------------------------------------------


def test_names_stand_one_a_line_and_bad_ones_with_the_reason() -> None:
    files = files_of(broken_port(states={"n4": "unreachable"}))
    assert files["good.txt"] == "n2\nn3\n"
    assert files["bad.txt"] == "n1\tPORT-NOT-ACTIVE at n1/mlx5_0\n"
    assert files["unknown.txt"].startswith("n4\tstate unreachable")


def ran(script: str, tmp_path: Path) -> tuple[int, list[str]]:
    """The exit code of ``script``, and the words of each command that it calls, letter by letter,
    one command after another.
    """
    log = tmp_path / "log"
    for tool in ("scontrol", "kubectl"):
        path = tmp_path / tool
        path.write_text(f"#!/bin/sh\nprintf '%s\\0' {tool} \"$@\" >> {shlex.quote(str(log))}\n")
        path.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, timeout=60
    )
    return done.returncode, log.read_text().split("\0")[:-1] if log.exists() else []


def test_scripts_drain_and_cordon_the_bad_nodes_only(tmp_path: Path) -> None:
    files = files_of(broken_port(states={"n4": "unreachable"}))
    assert ran(files["drain.sh"], tmp_path) == (
        0,
        [
            *("scontrol", "update", "NodeName=n1", "State=DRAIN"),
            "Reason=gdrcheck 20260103T030405Z-0a1b2d: PORT-NOT-ACTIVE at n1/mlx5_0",
        ],
    )
    (tmp_path / "log").unlink()
    assert ran(files["cordon.sh"], tmp_path) == (0, ["kubectl", "cordon", "n1"])


def test_one_command_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    suspects = [Suspect(place=(f"{node}/mlx5_0",), reason="x", cases=()) for node in ("n1", "n2")]
    script = files_of(Made(nodes=FOUR, suspects=suspects, verdict=Verdict.FAIL))["drain.sh"]
    code, words = ran(script, tmp_path)
    assert (code, len(words)) == (0, 10)
    (tmp_path / "log").unlink()
    refuses = script.replace("scontrol update NodeName=n1", "false")
    code, words = ran(refuses, tmp_path)
    assert (code, words[2]) == (1, "NodeName=n2")


def test_nodes_that_are_neither_are_in_no_script_and_that_is_said() -> None:
    files = files_of(broken_port(states={"n4": "unreachable"}))
    for name in ("drain.sh", "cordon.sh"):
        assert "# 1 node of unknown.txt is in neither script" in files[name]
    assert "unknown.txt" not in files_of(broken_port())["drain.sh"]
    assert "# Running pods stay" in files["cordon.sh"]


def test_a_node_with_very_many_reasons_is_one_short_line() -> None:
    cases = {f"x{number}[n2]": "error" for number in range(270)}
    found = files_of(Made(nodes=FOUR, cases={"n2": cases}, states={"n2": "timed out"}))
    (line,) = found["unknown.txt"].splitlines()
    assert line.startswith("n2\tstate timed out; ")
    assert line.endswith("; and 268 more, see junit.xml")
    assert len(line) < 200


def test_hostile_reasons_stay_words(tmp_path: Path) -> None:
    reason = 'x\'; touch pwned; $(touch pwned) `touch pwned`\n"touch pwned" \u2028 \x1b[2J é'
    suspect = Suspect(place=("n1/mlx5_0",), reason=reason, cases=())
    files = files_of(Made(nodes=FOUR, suspects=[suspect], verdict=Verdict.FAIL))
    assert not any("\x1b" in text for text in files.values())
    assert files["drain.sh"].isascii()
    assert files["cordon.sh"].isascii()
    code, words = ran(f"cd {shlex.quote(str(tmp_path))}\n{files['drain.sh']}", tmp_path)
    assert (code, len(words)) == (0, 5)
    assert "x'; touch pwned; $(touch pwned) `touch pwned`\\n" in words[-1]
    ran(f"cd {shlex.quote(str(tmp_path))}\n{files['cordon.sh']}", tmp_path)
    assert not (tmp_path / "pwned").exists()
    assert len(files["bad.txt"].splitlines()) == 1


@given(st.text(max_size=300))
def test_any_reason_is_one_word_of_one_line(reason: str) -> None:
    suspect = Suspect(place=("n1/mlx5_0",), reason=reason, cases=())
    files = files_of(Made(nodes=FOUR, suspects=[suspect], verdict=Verdict.FAIL))
    (command,) = [line for line in files["drain.sh"].splitlines() if "scontrol" in line[:8]]
    assert shlex.split(command)[5:] == ["||", "failed=$((failed", "+", "1))"]
    assert files["drain.sh"].isascii()


@pytest.mark.parametrize("word", ["emulated", "software_rdma"])
def test_scripts_of_emulated_hardware_do_nothing(word: str, tmp_path: Path) -> None:
    files = files_of(broken_port(**{word: True}))
    assert "# EMULATED" in files["drain.sh"]
    assert ran(files["drain.sh"], tmp_path) == (1, [])
    assert ran(files["cordon.sh"], tmp_path) == (1, [])


def test_without_bad_nodes_there_is_nothing_to_run(tmp_path: Path) -> None:
    files = files_of(Made(nodes=FOUR))
    assert files["bad.txt"] == ""
    assert "# no node to drain" in files["drain.sh"]
    assert ran(files["drain.sh"], tmp_path) == (0, [])


# --- the command --------------------------------------------------------------------------------


def test_the_command_writes_all_files_and_none_is_left_from_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_nodes(tmp_path / "run")
    Merged(tmp_path / "run")
    lists = tmp_path / "run" / "lists"
    assert main(["lists", str(tmp_path / "run")]) == 0
    (lists / "bad.txt").write_text("node2\told news\n")
    assert main(["lists", str(tmp_path / "run")]) == 0
    assert "2 good, 0 bad, 0 neither" in capsys.readouterr().out
    assert (lists / "good.txt").read_text() == "node1\nnode2\n"
    assert (lists / "bad.txt").read_text() == ""
    assert {path.name for path in lists.iterdir()} == {
        *("good.txt", "bad.txt", "unknown.txt", "drain.sh", "cordon.sh")
    }
    assert not any(path.stat().st_mode & 0o111 for path in lists.iterdir())


@pytest.mark.parametrize("name", ["good.txt", "bad.txt", "unknown.txt", "drain.sh", "cordon.sh"])
def test_files_of_somebody_else_are_left_alone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_nodes(tmp_path / "run")
    Merged(tmp_path / "run")
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("#!/bin/sh\nmine\n")
    assert main(["lists", str(tmp_path / "run"), "--out", str(out)]) == 2
    assert f"{out / name}: is there already" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == [name]
    assert (out / name).read_text() == "#!/bin/sh\nmine\n"


@pytest.mark.parametrize("name", ["ALL", "all", "a b", "a\nb", "n[1-9]", "a,b", "-l", "--all", ""])
def test_a_name_that_is_more_than_one_node_to_a_scheduler_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no scheduler takes this for one node"):
        files_of(Made(nodes=[name, "n2"]))


def test_a_run_that_measured_nothing_has_no_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side = Made(check_mode=True).build()
    (tmp_path / "summary.json").write_text(side.summary.model_dump_json())
    data.write(tmp_path / data.DATA_FILE, side.data)
    assert main(["lists", str(tmp_path)]) == 2
    assert "check mode" in capsys.readouterr().err
    assert not (tmp_path / "lists").exists()


def test_no_folder_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lists", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["lists", str(tmp_path / "file")]) == 2
    assert "a file, and a baseline has no lists" in capsys.readouterr().err
