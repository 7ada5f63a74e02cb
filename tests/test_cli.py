"""The command line: exit codes, one line a problem, never a traceback for wrong input."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gdrcheck import __version__
from gdrcheck.cli import main
from gdrcheck.findings.catalogue import ENTRIES
from gdrcheck.variables import VARIABLES

COMMANDS = (
    "explain",
    "facts",
    "topo",
    "profile",
    "pingpong",
    "variables",
    "schema",
    "prepare",
    "node",
    "merge",
    "compare",
    "baseline",
    "lists",
)

EXAMPLES = Path(__file__).resolve().parents[1] / "inventory.example/profiles"


def run(*argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "gdrcheck", *argv], input=stdin, capture_output=True, check=False
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"gdrcheck {__version__}\n"


def test_a_result_is_told_where_the_terminal_lacks_its_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    profile = tmp_path / "\xe9.yml"
    profile.write_bytes((EXAMPLES / "h200_ib.yml").read_bytes())
    told = run("profile", "check", str(profile))
    assert told.returncode == 0, told.stderr
    assert rb"\xe9.yml" in told.stdout


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"\n    {command}" in text for command in COMMANDS)
    assert "examples:" in text


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("node", ("--run", "--secret", "--node", "--out", "--lock", "--present")),
        ("merge", ("RESULTS_DIR", "--states", "--extra-junit", "--json")),
        ("compare", ("OLD", "NEW", "--all", "--json", "examples:", "exit codes:")),
        ("baseline", ("RUN", "FILE", "examples:")),
        ("lists", ("RUN", "--out", "examples:")),
        ("prepare", ("--playbook-dir", "--results-dir")),
        ("facts", ("--from", "--root", "--also", "--node", "--json", "examples:")),
        ("topo", ("--from", "--root", "--also", "--profile", "--json", "examples:")),
        ("profile", ("--from", "check", "schema", "examples:")),
        ("pingpong", ("--listen", "--gpu", "--method", "--numbers", "--json", "examples:")),
    ],
)
def test_help_of_a_command_names_its_options(
    command: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in options)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["explain"],
        ["node"],
        ["schema"],
        ["profile"],
        ["profile", "--from", "facts.json", "schema"],
        ["facts", "--from", "facts.json", "--root", "/"],
        ["topo", "--also", "mlx5_0"],
    ],
)
def test_wrong_use_is_exit_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert "usage: gdrcheck" in capsys.readouterr().err


def test_explain_shows_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "PORT-NOT-ACTIVE"]) == 0
    assert capsys.readouterr().out.startswith("PORT-NOT-ACTIVE: A port is not active\n")


def test_explain_of_an_unknown_code_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "PORT-NOT-ACTIV"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "PORT-NOT-ACTIV is no code; expected one of gdrcheck explain --list; "
        "did you mean PORT-NOT-ACTIVE?\n"
    )


def test_explain_lists_all_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ENTRIES)
    assert main(["explain", "--list", "--json"]) == 0
    assert [entry["code"] for entry in json.loads(capsys.readouterr().out)] == [
        entry.code for entry in ENTRIES
    ]


def test_profile_check_says_valid_and_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yml"
    file.write_text("gpus: {count: 0}\n")
    assert main(["profile", "check", str(file)]) == 0
    assert capsys.readouterr().out == (
        f"{file}: valid\n{file}: rails is left out: the verdict will be INCOMPLETE at best\n"
    )


def test_profile_check_gives_one_line_a_problem_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yml"
    file.write_text("gpsu: 1\nrials: 2\n")
    assert main(["profile", "check", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(": ")[0] for line in err.splitlines()] == [f"{file}:1", f"{file}:2"]


def test_profile_check_prints_the_profile_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yml"
    file.write_text("matrix: full\n")
    assert main(["profile", "check", "--json", str(file)]) == 0
    profile = json.loads(capsys.readouterr().out)
    assert (profile["matrix"], profile["registration"]) == ("full", "any")


def test_variables_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["variables"]) == 0
    text = capsys.readouterr().out
    assert all(f"{variable.name} (" in text for variable in VARIABLES)
    assert main(["variables", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(VARIABLES)


def test_schema_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "profile"]) == 0
    printed = capsys.readouterr().out
    assert main(["schema", "--write", str(tmp_path)]) == 0
    assert (tmp_path / "profile.json").read_text() == printed


def test_prepare_refuses_what_is_no_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nonsense")))
    assert main(["prepare", "--playbook-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("standard input: ")
    assert list(tmp_path.iterdir()) == []


def test_node_with_unusable_files_is_one_line_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["node", "--run=none", "--secret=none", "--node=n", f"--out={tmp_path}"]
    assert main(argv) == 2
    assert "none" in capsys.readouterr().err


def test_merge_of_a_folder_without_a_run_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["merge", str(tmp_path)]) == 2
    assert "run.json" in capsys.readouterr().err


def test_names_of_present_nodes_must_be_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["node", "--run=r", "--secret=s", "--node=n", "--out=o", "--present=a,,b"]
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert "expected names with commas between" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(28, "No space left", "junit.xml"), 2, "junit.xml: No space left\n"),
        (OSError("odd"), 2, "odd\n"),
        (RuntimeError("a bug"), 3, "RuntimeError: a bug\n"),
    ],
)
def test_an_exception_never_looks_like_a_fail(
    error: Exception,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr("gdrcheck.findings.show.as_list", fails)
    assert main(["explain", "--list"]) == code
    err = capsys.readouterr().err
    assert err.endswith(said)
    assert ("Traceback" in err) == (code == 3)


def test_interrupt_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("gdrcheck.findings.show.as_list", interrupted)
    assert main(["explain", "--list"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m gdrcheck explain --markdown | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stderr == b""
    assert done.returncode in (0, 141)


def test_help_needs_neither_yaml_nor_the_drivers() -> None:
    code = (
        "import sys\n"
        "for name in ('yaml', 'pyverbs', 'cuda', 'pytest', 'numpy'): sys.modules[name] = None\n"
        "from gdrcheck.cli import main\n"
        "main(['explain', '--list'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_module_can_be_run() -> None:
    done = run("schema", "--list")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"profile" in done.stdout.split()
