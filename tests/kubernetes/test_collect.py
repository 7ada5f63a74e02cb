"""Logs become the folder of a run, or one clear error, whatever somebody wrote into them."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gdrcheck.cli import main
from gdrcheck.kubernetes import collect, parts, place
from gdrcheck.kubernetes.document import JobDocument
from gdrcheck.kubernetes.judging import judge_run
from gdrcheck.kubernetes.log_blocks import Kind, block_lines, header_of
from gdrcheck.kubernetes.parts import archive_name, pack_part
from gdrcheck.kubernetes.place import log_node, log_run, make_run_folder
from gdrcheck.outcome import Verdict
from gdrcheck.report import page
from gdrcheck.results.pack import pack, packed
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.run import RunSpec
from tests.node.support import RUN_ID, run_spec
from tests.results.trees import fill, two_nodes

OTHER_ID = "20260103T030405Z-ffffff"


class Run:
    """A run of two healthy nodes, on the volumes of its pods."""

    def __init__(self, root: Path) -> None:
        self.root = root
        two_nodes(root)
        fill(root)
        self.spec = run_spec("node1", "node2")
        self.document = JobDocument(run=self.spec, present=("node1", "node2"))
        self.archives = {name: pack(root / "nodes" / name) for name in ("node1", "node2")}

    def node_log(self, node: str) -> Path:
        """The log of a pod that was not index 0."""
        path = self.root / f"{node}.log"
        lines: list[str] = ["hello"]
        log_node(lines.append, self.document, node, self.archives[node])
        path.write_text("\n".join(lines) + "\n")
        return path

    def blocks(
        self, files: Mapping[str, bytes], kind: Kind = "node", verdict: Verdict | None = None
    ) -> Path:
        """A log with one block of ``files``."""
        content = pack_part(files)
        header = header_of(content, kind=kind, run_id=RUN_ID, of="node1", verdict=verdict)
        return self.log(*block_lines(header, content))

    def raw(self, content: bytes) -> Path:
        """A log with one block of ``content``."""
        header = header_of(content, kind="node", run_id=RUN_ID, of="node1")
        return self.log(*block_lines(header, content))

    def log(self, *lines: str) -> Path:
        path = self.root / f"log{len(list(self.root.glob('log*')))}"
        path.write_text("\n".join(lines))
        return path

    def text(self, spec: RunSpec | None = None) -> bytes:
        return (spec or self.spec).model_dump_json(indent=2).encode() + b"\n"

    def collect(self, *logs: Path) -> int:
        return main(["collect", "--from-log", *map(str, logs), "--out", str(self.root / "out")])


@pytest.fixture
def made(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def refused(made: Run, capsys: pytest.CaptureFixture[str], *logs: Path) -> str:
    """What is said of logs that give nothing."""
    assert made.collect(*logs) == 2
    told = capsys.readouterr()
    assert told.out == ""
    out = made.root / "out"
    assert not out.exists() or not list(out.iterdir())
    return told.err


def test_the_logs_of_all_pods_give_the_run(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert made.collect(made.node_log("node1"), made.node_log("node2")) == 0
    assert "verdict: PASS" in capsys.readouterr().out
    place = made.root / "out" / RUN_ID
    assert (place.parent / "latest").readlink() == Path(RUN_ID)
    assert (place / "report.html").is_file()
    for node in ("node1", "node2"):
        for path in (made.root / "nodes" / node).iterdir():
            assert (place / "nodes" / node / path.name).read_bytes() == path.read_bytes()


def test_a_comparison_with_the_same_run_over_ssh_finds_nothing_renamed(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["merge", str(made.root)]) == 0
    assert made.collect(made.node_log("node1"), made.node_log("node2")) == 0
    capsys.readouterr()
    place = made.root / "out" / RUN_ID
    # Another run, as the comparison wants it.
    summary, packed_data = place / "summary.json", place / "data.json.gz"
    summary.write_text(summary.read_text().replace(RUN_ID, OTHER_ID))
    text = gzip.decompress(packed_data.read_bytes()).replace(RUN_ID.encode(), OTHER_ID.encode())
    packed_data.write_bytes(gzip.compress(text))
    assert main(["compare", "--json", str(made.root), str(place)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["vanished"], told["appeared"]) == ([], 0)
    assert told["same_kind"] > 100


def test_a_log_that_is_missing_is_a_node_without_results(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made.collect(made.node_log("node1")) == 2
    assert "verdict: INCOMPLETE" in capsys.readouterr().out


def test_what_index_0_saw_counts(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seen = SeenStates(nodes={"node2": SeenState(state="no result", reason="pod was lost")})
    log = made.blocks(
        {
            "run.json": made.text(),
            "states.json": seen.model_dump_json().encode(),
            archive_name("node1"): made.archives["node1"],
        },
        "run",
        Verdict.INCOMPLETE,
    )
    assert made.collect(log) == 2
    assert "pod was lost" in capsys.readouterr().out


def test_the_worse_of_two_verdicts_counts(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "run.json": made.text(),
        **{archive_name(node): archive for node, archive in made.archives.items()},
    }
    assert made.collect(made.blocks(files, "run", Verdict.FAIL)) == 1
    told = capsys.readouterr()
    assert "verdict: PASS" in told.out
    assert "judged FAIL" in told.err


@pytest.mark.parametrize("trouble", ["folder", "no links"])
def test_a_verdict_is_told_where_latest_cannot_be(
    made: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
) -> None:
    if trouble == "folder":
        (made.root / "out/latest").mkdir(parents=True)
    else:
        monkeypatch.setattr(Path, "symlink_to", no_links)
    assert made.collect(made.node_log("node1"), made.node_log("node2")) == 0
    told = capsys.readouterr()
    assert "verdict: PASS" in told.out
    assert "note: " in told.err


def no_links(*_: object) -> None:
    raise OSError(95, "Operation not supported")


def test_without_a_page_nothing_was_made(
    made: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gdrcheck.report.page.write", fail)
    log = made.node_log("node1")
    assert "No space left on device" in refused(made, capsys, log)


def test_what_a_killed_collect_left_does_not_stand_in_the_way(made: Run) -> None:
    killed = "import os; from gdrcheck.report import page; page.write = lambda _: os.kill("
    killed += "os.getpid(), 9); from gdrcheck.cli import main; main()"
    logs = [str(made.node_log(node)) for node in ("node1", "node2")]
    words = ["collect", "--out", str(made.root / "out"), "--from-log", *logs]
    done = subprocess.run([sys.executable, "-c", killed, *words], check=False)
    assert done.returncode == -9
    assert main(words) == 0


def test_a_volume_without_links_costs_no_verdict(
    made: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "symlink_to", no_links)
    (made.root / "volume").mkdir()
    folder = make_run_folder(made.root / "volume", made.document, made.archives, None)
    summary, told = judge_run(folder, SeenStates(), page.write)
    assert summary.verdict is Verdict.PASS
    assert [one.exit_code for one in told.values()] == [0, 0]


def test_a_run_that_is_there_already_is_not_written_over(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = made.node_log("node1"), made.node_log("node2")
    assert made.collect(*logs) == 0
    capsys.readouterr()
    assert made.collect(*logs) == 2
    assert "is there already" in capsys.readouterr().err


def test_large_results_are_left_to_the_other_logs(
    made: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "MAX_RUN_BLOCK_BYTES", 10)
    (made.root / "volume").mkdir()
    folder = make_run_folder(made.root / "volume", made.document, made.archives, None)
    summary, _ = judge_run(folder, SeenStates(), page.write)
    lines: list[str] = []
    log_node(lines.append, made.document, "node1", made.archives["node1"])
    log_run(lines.append, made.document, "node1", folder, summary)
    log = made.log(*lines)
    assert "index 0 had the results of node2" in refused(made, capsys, log)
    assert made.collect(log, made.node_log("node2")) == 0


def test_no_log_and_no_results_are_said(
    made: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "No such file" in refused(made, capsys, tmp_path / "none.log")
    assert "no results of gdrcheck" in refused(made, capsys, made.log("hello"))


def test_a_truncated_log_is_refused(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    log = made.node_log("node1")
    log.write_text(log.read_text()[:-1000])
    assert "cut off" in refused(made, capsys, log, made.node_log("node2"))


def test_two_runs_are_not_mixed(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    content = pack_part({"run.json": b"{}"})
    header = header_of(content, kind="node", run_id=OTHER_ID, of="node2")
    log = made.log(*block_lines(header, content))
    told = refused(made, capsys, made.node_log("node1"), log)
    assert f"of run {RUN_ID}" in told
    assert f"of run {OTHER_ID}" in told


def test_logs_that_contradict_each_other_are_refused(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = made.blocks(
        {"run.json": made.text(), archive_name("node1"): packed({"done.json": b"{}"})}
    )
    assert "tell different things of nodes/node1/" in refused(
        made, capsys, made.node_log("node1"), forged
    )
    changed = made.blocks({"run.json": made.text(run_spec("node1", "node2", rounds=1))})
    assert "different things of run.json" in refused(made, capsys, made.node_log("node1"), changed)


@pytest.mark.parametrize(
    "name",
    [
        "../run.json",
        "/etc/passwd",
        "nodes/../../x/results.tar.gz",
        "nodes/../results.tar.gz",
        "nodes/node1/../../results.tar.gz",
        "nodes/node1/events.jsonl",
        "report.html",
        "summary.json",
        "secret",
        "run.json/x",
    ],
)
def test_nothing_is_written_but_what_belongs_to_a_run(
    made: Run, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    log = made.blocks({"run.json": made.text(), name: b"x"})
    assert "belongs to no run" in refused(made, capsys, log)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_pipes_are_refused(
    made: Run, capsys: pytest.CaptureFixture[str], kind: bytes
) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("run.json")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    assert "belongs to no run" in refused(made, capsys, made.raw(stream.getvalue()))


def announcing(kind: bytes, size: bytes = b"0" * 11 + b"\0") -> bytes:
    """A header that only announces the next one."""
    header = bytearray(tarfile.TarInfo("run.json").tobuf(tarfile.USTAR_FORMAT))
    header[124:136], header[156:157], header[148:156] = size, kind, b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_headers_that_announce_each_other_are_refused(
    made: Run, capsys: pytest.CaptureFixture[str], kind: bytes
) -> None:
    log = made.raw(gzip.compress(announcing(kind) * 3000 + bytes(1024)))
    assert "belongs to no run" in refused(made, capsys, log)


def test_a_header_that_leads_back_is_refused(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    back = b"\xff" * 10 + (-1024 & 0xFFFF).to_bytes(2, "big")
    for kind in (b"0", b"x"):
        log = made.raw(gzip.compress(announcing(kind, back) + bytes(1024)))
        assert "a size is wrong" in refused(made, capsys, log)


def test_the_longest_name_of_a_node_is_kept() -> None:
    files = {"run.json": b"{}", archive_name("n" * 253): bytes(1000), archive_name("m"): b""}
    assert parts.read_part(pack_part(files), "pod.log") == files


def test_a_bomb_in_many_parts_is_refused(
    made: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MAX_TOTAL_BYTES", 1 << 20)
    lines: list[str] = []
    for number in range(3):
        content = pack_part({"run.json": made.text(), archive_name(f"n{number}"): bytes(1 << 19)})
        header = header_of(content, kind="node", run_id=RUN_ID, of=f"n{number}")
        lines += block_lines(header, content)
    assert "the results are larger than 1 MiB" in refused(made, capsys, made.log(*lines))


def test_a_bomb_is_refused(
    made: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(parts, "MAX_FILES", 10)
    bomb = gzip.compress(b"\0" * (4 << 20))
    assert "larger than a run can be" in refused(made, capsys, made.raw(bomb))
    many = pack_part({archive_name(f"n{number}"): b"" for number in range(11)})
    assert "more than a run can have" in refused(made, capsys, made.raw(many))


@pytest.mark.parametrize("content", [b"x", gzip.compress(b"x"), gzip.compress(b"x" * 5000)])
def test_no_archive_is_refused(
    made: Run, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    assert refused(made, capsys, made.raw(content))


def test_a_node_that_the_run_does_not_have_is_refused(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    log = made.blocks({"run.json": made.text(), archive_name("stranger"): b"x"}, "run")
    assert "has no node stranger" in refused(made, capsys, log)


def test_a_run_document_of_another_run_is_refused(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    other = made.spec.model_copy(update={"run_id": OTHER_ID})
    assert "their run.json of" in refused(made, capsys, made.blocks({"run.json": made.text(other)}))
    assert "run.json" in refused(made, capsys, made.blocks({"run.json": b"{}"}))
    assert "no log holds its run.json" in refused(
        made, capsys, made.blocks({archive_name("node1"): b"x"})
    )


def test_only_index_0_tells_how_the_nodes_fared(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    log = made.blocks({"run.json": made.text(), "states.json": b"{}"})
    assert "is not index 0" in refused(made, capsys, log)


def test_a_pod_that_is_not_index_0_tells_of_its_own_node_only(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = {archive_name(node): archive for node, archive in made.archives.items()}
    told = refused(made, capsys, made.blocks({"run.json": made.text(), **everything}))
    assert "holds nodes/node2/results.tar.gz, but the pod of node node1" in told


def test_a_run_of_many_nodes_with_long_names_is_collected(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    content = pack_part({"run.json": made.text()})
    names = tuple(f"{number:0>60}" for number in range(2000))
    header = header_of(content, kind="run", run_id=RUN_ID, of="node1", omitted=names)
    assert names[-1] in refused(made, capsys, made.log(*block_lines(header, content)))


def test_a_damaged_archive_of_a_node_is_a_node_without_results(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    log = made.blocks({"run.json": made.text(), archive_name("node1"): b"no archive"})
    assert made.collect(log, made.node_log("node2")) == 2
    assert "cannot be unpacked" in capsys.readouterr().out
