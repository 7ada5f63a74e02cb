"""Where a pod keeps what it writes, and what of it goes into its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gdrcheck.kubernetes.document import JobDocument
from gdrcheck.kubernetes.log_blocks import Header, block_lines, header_of
from gdrcheck.kubernetes.parts import OF_RUN, archive_name, node_of, pack_part
from gdrcheck.results.folder import IB_LINKS_FILE, RUN_FILE
from gdrcheck.results.summary import Summary
from gdrcheck.results.unpack import ARCHIVE

# Log rotation keeps 10 MiB of a container by default; this is base64 there, and not alone.
MAX_RUN_BLOCK_BYTES = 5 << 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OwnPlace:
    """The folder of one pod: the run document, and ``out`` for what the node's process writes."""

    folder: Path

    @classmethod
    def of(cls, results: Path, run_id: str, node: str) -> OwnPlace:
        """That of ``node`` in a run; ``make`` it before it is used."""
        return cls(results / f"{run_id}.pods" / node)

    def make(self) -> None:
        """Make it anew. OSError when it cannot be written, or is there already."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir()
        self.out.mkdir()

    @property
    def run_file(self) -> Path:
        """The run document."""
        return self.folder / RUN_FILE

    @property
    def out(self) -> Path:
        """What the node leaves."""
        return self.folder / "out"


def run_text(document: JobDocument) -> bytes:
    """run.json, the same bytes in every pod."""
    return document.run.model_dump_json(indent=2).encode() + b"\n"


def make_run_folder(
    results: Path, document: JobDocument, archives: Mapping[str, bytes], ib_links: bytes | None
) -> Path:
    """The folder of the run as a controller has it after fetching. OSError if it cannot be made."""
    folder = results / document.run.run_id
    folder.mkdir()
    (folder / RUN_FILE).write_bytes(run_text(document))
    if ib_links is not None:
        (folder / IB_LINKS_FILE).write_bytes(ib_links)
    (folder / "nodes").mkdir()
    for node, archive in archives.items():
        path = folder / archive_name(node)
        path.parent.mkdir()
        path.write_bytes(archive)
    return folder


def log_node(say: Say, document: JobDocument, node: str, archive: bytes) -> None:
    """Put the node's own results into the log."""
    content = pack_part({RUN_FILE: run_text(document), archive_name(node): archive})
    _log(say, header_of(content, kind="node", run_id=document.run.run_id, of=node), content)


def log_run(say: Say, document: JobDocument, node: str, folder: Path, summary: Summary) -> None:
    """Put into the log of index 0, which runs on ``node``, what it gathered and saw.

    Its node's own results are in there already; those of the others are left to their own logs when
    they are too many.
    """
    files = {name: path.read_bytes() for name in OF_RUN if (path := folder / name).is_file()}
    gathered = {
        name: path.read_bytes()
        for path in sorted(folder.glob(f"nodes/*/{ARCHIVE}"))
        if (name := archive_name(path.parent.name)) != archive_name(node)
    }
    omitted = [node]
    if sum(map(len, gathered.values())) > MAX_RUN_BLOCK_BYTES:
        omitted += [found for name in gathered if (found := node_of(name)) is not None]
    else:
        files |= gathered
    content = pack_part(files)
    header = header_of(
        content,
        kind="run",
        run_id=document.run.run_id,
        of=node,
        verdict=summary.verdict,
        omitted=tuple(omitted),
    )
    _log(say, header, content)


def _log(say: Say, header: Header, content: bytes) -> None:
    for line in block_lines(header, content):
        say(line)
