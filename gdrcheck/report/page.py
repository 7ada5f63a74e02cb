"""Makes ``report.html`` of a run's summary and data."""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gdrcheck.findings.show import COMMAND
from gdrcheck.outcome import InputError
from gdrcheck.report import causes, facts, matrices, standing, tables, wide_matrices
from gdrcheck.results import data as data_file
from gdrcheck.results.compare_side import together
from gdrcheck.results.console import EMULATED, SOFT_ROCE
from gdrcheck.results.data import DATA_FILE, Data
from gdrcheck.results.files import read_limited, write_atomic
from gdrcheck.results.folding import fold
from gdrcheck.results.summary import MAX_TROUBLES, Summary

PAGE_FILE = "report.html"
SUMMARY_FILE = "summary.json"
MAX_SUMMARY_BYTES = 512 * 1024 * 1024
STYLES = ("style.css",)
SCRIPTS = ("cells.js", "words.js", "heat.js", "topology.js", "node.js", "main.js")


def write(results_dir: Path) -> Path:
    """Write ``report.html`` of the run in ``results_dir`` beside its files; returns its path.

    InputError, one line, when summary.json or data.json.gz is missing or damaged, or the two are of
    different merges; a page that is there stays then.
    """
    path = results_dir / PAGE_FILE
    summary = read_summary(results_dir)
    data = data_file.read(results_dir / DATA_FILE)
    together(summary, data, results_dir)
    write_atomic(path, render(summary, data).encode())
    return path


def read_summary(results_dir: Path) -> Summary:
    """The summary that a merge wrote. InputError, one line, if it is missing or damaged."""
    path = results_dir / SUMMARY_FILE
    try:
        return Summary.model_validate_json(read_limited(path, MAX_SUMMARY_BYTES))
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: no such file; expected the folder of a run after gdrcheck merge"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(
            f"{path}: is no summary of this version; gdrcheck merge {results_dir} writes it anew"
        ) from error


def render(summary: Summary, data: Data) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("gdrcheck.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["commands"] = _with_commands
    found, blobs = (wide_matrices if data.blocks else matrices).maps(data)
    return environment.get_template("page.html.j2").render(
        summary=summary,
        standing=standing.standing(summary, data),
        meanings=standing.MEANINGS,
        slots=causes.Slots(data),
        banners=_banners(summary),
        causes=causes.causes(summary),
        unmeasured=causes.unmeasured(summary),
        charts=tables.charts(data),
        versions=tables.versions(data),
        nodes=fold(summary.nodes),
        leaves={node.name: node.leaf for node in data.nodes},
        most_troubles=MAX_TROUBLES,
        maps=found,
        blobs=blobs,
        facts=_json(facts.facts(summary, data, found)),
        style=_source(environment, STYLES),
        script=_source(environment, SCRIPTS),
    )


def _banners(summary: Summary) -> list[str]:
    told = [
        (summary.emulated, EMULATED),
        (summary.software_rdma, SOFT_ROCE),
        (summary.check_mode, "check mode: nothing measured"),
    ]
    return [text for applies, text in told if applies]


def _json(value: object) -> Markup:
    """``value`` as JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _with_commands(text: str) -> Markup:
    """``text`` with what stands in backticks as code."""
    parts = COMMAND.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part[1:-1]) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def _source(environment: Environment, names: tuple[str, ...]) -> Markup:
    """Our own files, as they are."""
    loader = environment.loader
    assert loader is not None
    return Markup("\n".join(loader.get_source(environment, name)[0] for name in names))
