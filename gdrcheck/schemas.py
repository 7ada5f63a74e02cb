"""The published JSON Schemas, generated from the models."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from pydantic import TypeAdapter

from gdrcheck.nearest import did_you_mean
from gdrcheck.outcome import InputError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Name of the schema: where its model is. Named, not imported, so that listing them stays fast.
MODELS = {
    "baseline": ("gdrcheck.results.compare_side", "Baseline"),
    "catalogue": ("gdrcheck.findings.model", "Entry"),
    "comparison": ("gdrcheck.results.compare_model", "Comparison"),
    "counters": ("gdrcheck.facts", "CountersAfter"),
    "data": ("gdrcheck.results.data", "Data"),
    "events": ("gdrcheck.results.events", "Event"),
    "facts": ("gdrcheck.facts", "Facts"),
    "finding": ("gdrcheck.findings.model", "Finding"),
    "node-states": ("gdrcheck.results.states", "SeenStates"),
    "pingpong": ("gdrcheck.commands.pingpong.report", "Report"),
    "profile": ("gdrcheck.profile", "Profile"),
    "rendezvous": ("gdrcheck.pairing.rendezvous", "RendezvousResult"),
    "run": ("gdrcheck.run", "RunSpec"),
    "summary": ("gdrcheck.results.summary", "Summary"),
    "topology": ("gdrcheck.show.matrix", "Topology"),
}


def names() -> tuple[str, ...]:
    """The names of all schemas, sorted."""
    return tuple(sorted(MODELS))


def schema_text(name: str) -> str:
    """The schema called ``name`` as JSON, ending in a line break. InputError if there is none."""
    if name not in MODELS:
        raise InputError(
            f"{name}: no such schema; expected one of {', '.join(names())}"
            f"{did_you_mean(name, MODELS)}"
        )
    module, attribute = MODELS[name]
    model = getattr(import_module(module), attribute)
    schema = {
        "$schema": DIALECT,
        "title": f"gdrcheck {name}",
        **{key: value for key, value in TypeAdapter(model).json_schema().items() if key != "title"},
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> tuple[Path, ...]:
    """Write every schema to ``folder``/NAME.json, and return the paths. InputError if it cannot."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names():
            path = folder / f"{name}.json"
            path.write_text(schema_text(name), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: cannot be written: {error.strerror}"
        ) from error
    return tuple(written)
