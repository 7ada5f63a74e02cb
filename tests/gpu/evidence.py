"""The part of docs/evidence.md that `make test-gpu` writes: what ran on which GPU, and how it went.

One row a kind of machine. A later run on the same kind replaces its row, whatever the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gdrcheck.facts import Facts, NvidiaDriver, Nvml, Unreadable

BEGIN = "<!-- written by `make test-gpu`, not by hand: begin -->"
END = "<!-- written by `make test-gpu`, not by hand: end -->"
# What tests measure (`record_property`), in the order of the columns. A - was not measured.
MEASURED = (
    "export of 64 KiB",
    "export of 2 MiB",
    "export of 1 GiB",
    "export of 8 GiB",
    "export of 100 GiB",
    "verification over copy",
)
RUNS = ("GPUs", "driver", "CUDA", "kernel", "Python", "cuda-bindings", "gdrcheck", "date", "tests")
# The columns that tell one kind of machine from another; the others may change from run to run.
KIND = ("GPUs", "driver", "cuda-bindings")
TIMES = (*KIND, *MEASURED)
# The same of GPUs that use each other's memory; a machine with one GPU has no row.
PAIRED = ("pairs of GPUs", "copy one way")
PAIRS = (*KIND, *PAIRED)
_NAMED_FAILURES = 3

Row = dict[str, str]


class EvidenceError(ValueError):
    """The page has no section to write to, or a run is none to be written; the text says why."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the tests ran on, in words, as the facts of the machine tell."""

    gpus: str
    driver: str
    cuda: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Run:
    """One whole run. ``failed`` names every test that failed or could not be set up."""

    machine: Machine
    python: str
    bindings: str
    gdrcheck: str
    date: str
    passed: int
    failed: tuple[str, ...]
    skipped: int
    measured: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> str:
        """The outcome in words. ``passed`` stands first only when every test passed."""
        if not self.passed and not self.failed:
            return "nothing ran"
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        if not self.failed:
            return f"{self.passed} passed{skipped}"
        names = ", ".join(self.failed[:_NAMED_FAILURES])
        more = len(self.failed) - _NAMED_FAILURES
        rest = f" and {more} more" if more > 0 else ""
        return f"**{len(self.failed)} FAILED** ({names}{rest}), {self.passed} passed{skipped}"


def machine_of(facts: Facts) -> Machine:
    """The machine that ``facts`` describe; EvidenceError when it has no GPU, or emulated ones."""
    if facts.emulated:
        raise EvidenceError("the GPU is emulated: that is no evidence of any hardware")
    if not isinstance(facts.nvml, Nvml) or not facts.nvml.gpus:
        raise EvidenceError(f"NVML shows no GPU here: {facts.nvml}")
    models = [_shown(gpu.model) for gpu in facts.nvml.gpus]
    counts = {model: models.count(model) for model in sorted(set(models))}
    return Machine(
        gpus=", ".join(f"{count} x {model}" for model, count in counts.items()),
        driver=f"{_shown(facts.nvml.driver_version)}, {_module(facts)}",
        cuda=_shown(facts.nvml.cuda_version),
        kernel=_shown(facts.host.kernel),
    )


def updated(page: str, run: Run) -> str:
    """``page`` with the rows of ``run`` in place of older ones of the same kind of machine.

    EvidenceError when the page does not hold the two marks, each once and in order.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise EvidenceError(f"the page must hold two lines, once each: {BEGIN} and {END}")
    before, rest = page.split(BEGIN)
    section, after = rest.split(END)
    ran, times, pairs = (_rows(section, columns) for columns in (RUNS, TIMES, PAIRS))
    kind = _kind(run)
    new = kind | {
        "CUDA": run.machine.cuda,
        "kernel": run.machine.kernel,
        "Python": run.python,
        "gdrcheck": run.gdrcheck,
        "date": run.date,
        "tests": run.result,
    }
    text = "\n".join(
        [
            _table(RUNS, _replaced(ran, new)),
            "",
            "Median time of one dma-buf export by size, and the rate at which the verifier reads",
            "8 GiB of GPU memory, over the rate at which a copy reads and writes as many:",
            "",
            _table(TIMES, _replaced(times, kind | run.measured)),
            "",
            "Copies of 256 MiB between each two GPUs of a node, both ways, from the slowest to the",
            "fastest:",
            "",
            _table(PAIRS, _replaced(pairs, kind | run.measured, add=_has_pairs(run))),
        ]
    )
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _has_pairs(run: Run) -> bool:
    return set(PAIRED) <= set(run.measured)


def _kind(run: Run) -> Row:
    return {
        "GPUs": run.machine.gpus,
        "driver": run.machine.driver,
        "cuda-bindings": run.bindings,
    }


def _replaced(rows: Sequence[Row], new: Row, *, add: bool = True) -> list[Row]:
    others = [row for row in rows if any(row[name] != _cell(new[name]) for name in KIND)]
    now = [*others, new] if add else others
    return sorted(now, key=lambda row: [_cell(row[name]) for name in KIND])


def _rows(section: str, columns: Sequence[str]) -> list[Row]:
    """The rows of the table in ``section`` whose head has exactly these columns."""
    found, inside = [], False
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells == list(columns):
            inside = True
        elif inside and len(cells) == len(columns) and set(line) - set("|-"):
            found.append(dict(zip(columns, cells, strict=True)))
    return found


def _table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [" | ".join(columns), "|".join("---" for _ in columns)]
    lines += [" | ".join(_cell(row.get(name, "-")) for name in columns) for row in rows]
    return "\n".join([f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:])])


def _cell(text: str) -> str:
    """Text that cannot end its cell or its line."""
    return " ".join(text.replace("|", "/").split()) or "-"


def _shown(value: str | Unreadable | None) -> str:
    return value if isinstance(value, str) else "unknown"


def _module(facts: Facts) -> str:
    driver = facts.nvidia
    if not isinstance(driver, NvidiaDriver) or isinstance(driver.open_module, Unreadable):
        return "kind of module unknown"
    return "open module" if driver.open_module else "proprietary module"
