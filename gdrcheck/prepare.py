"""``gdrcheck prepare``: from what Ansible knows to a run document, or to a list of complaints."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from gdrcheck import __version__
from gdrcheck.complaints import complaints
from gdrcheck.inventory import Judged, judge
from gdrcheck.inventory_files import Inventory
from gdrcheck.node.clock import overall_s
from gdrcheck.outcome import InputError
from gdrcheck.pairing.plan import planned_s
from gdrcheck.results.folder import IB_LINKS_FILE, LATEST, point_latest_at
from gdrcheck.results.pairs import scheduled
from gdrcheck.results.round_limits import too_many_rounds
from gdrcheck.run import RunSpec, new_run_id
from gdrcheck.yaml_lines import dotted

SECRET_BYTES = 32
# Enough for thousands of hosts with all their variables.
MAX_INPUT_BYTES = 64 << 20


class NodeOptions(BaseModel):
    """What the playbook must know of one node. ``gpus`` and ``rails`` are the promised counts;
    ``partners`` are the nodes that it shares a pair with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    port: int
    profile: str
    gpus: int
    rails: int
    allow_gpu_processes: bool
    partners: tuple[str, ...]


class Prepared(BaseModel):
    """The answer to the playbook. ``options`` are the run's variables without their prefix.

    ``overall_s`` is the most that a node's container takes from start to exit, in seconds;
    ``pairs_s`` what the rounds of pairs are planned to take on real nodes where nothing is wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    run_dir: str
    nodes: tuple[str, ...]
    limited_to: str | None
    check_mode: bool
    overall_s: float
    pairs_s: float
    options: dict[str, object]
    node_options: dict[str, NodeOptions]


def parse_inventory(content: bytes) -> Inventory:
    """The playbook's JSON. InputError if it is none: then the playbook itself is wrong."""
    if len(content) > MAX_INPUT_BYTES:
        raise InputError(f"standard input: larger than {MAX_INPUT_BYTES} bytes")
    try:
        return Inventory.model_validate_json(content)
    except ValidationError as error:
        raise InputError(
            *(
                f"standard input: {dotted(complaint.path)}: {complaint.text}"
                for complaint in complaints(error, Inventory)
            )
        ) from error


def prepare(
    inventory: Inventory, playbook_folder: Path, results_folder: Path | None, now: datetime
) -> Prepared:
    """Judge the inventory and write the folder of a new run: ``run.json``, ``secret``, and a copy
    of the fabric's links if there is a list of them.

    ``results_folder`` overrides the inventory's; a relative one lies below ``playbook_folder``.
    ``latest`` then points at the run, but not in check mode, which measures nothing. InputError
    with all problems at once, and then nothing was written.
    """
    judged = judge(inventory, playbook_folder, now.date())
    run = _run(inventory, judged, now)
    longer = "phase_s in gdrcheck_deadlines to twice that"
    if problems := [*too_many_rounds(run, "gdrcheck_rounds:", longer)]:
        raise InputError(*problems)
    results = (playbook_folder / (results_folder or judged.run_variables.results_dir)).absolute()
    folder = results / run.run_id
    try:
        _write(folder, run, judged.ib_links, switch_latest=not inventory.check_mode)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: cannot be written: {error.strerror}; "
            "expected a folder for results that you may write to"
        ) from error
    partners = _partners(run)
    return Prepared(
        run_id=run.run_id,
        run_dir=str(folder),
        nodes=tuple(node.name for node in run.nodes),
        limited_to=run.limited_to,
        check_mode=inventory.check_mode,
        overall_s=overall_s(run.waits),
        pairs_s=planned_s(run),
        options=_options(judged, playbook_folder),
        node_options={
            node.name: _node_options(judged, run, partners, node.name) for node in run.nodes
        },
    )


def _run(inventory: Inventory, judged: Judged, now: datetime) -> RunSpec:
    variables = judged.run_variables
    try:
        return RunSpec(
            run_id=new_run_id(now),
            created=now.astimezone(UTC),
            gdrcheck_version=__version__,
            image_id=inventory.image_id,
            nodes=judged.nodes,
            profiles=dict(judged.profiles),
            limited_to=inventory.limit or None,
            rounds=variables.rounds,
            time_scale=variables.time_scale,
            deadlines=variables.deadlines,
        )
    except ValidationError as error:
        raise InputError(*(f"inventory: {one['msg']}" for one in error.errors())) from error


def _options(judged: Judged, playbook_folder: Path) -> dict[str, object]:
    options = judged.run_variables.model_dump(mode="json")
    if judged.run_variables.image_archive is not None:
        # Ansible looks for relative sources in places of its own.
        archive = playbook_folder / judged.run_variables.image_archive
        options["image_archive"] = str(archive.absolute())
    return options


def _node_options(
    judged: Judged, run: RunSpec, partners: dict[str, tuple[str, ...]], name: str
) -> NodeOptions:
    node, profile = run.node(name), run.profile_of(name)
    return NodeOptions(
        address=node.address,
        port=node.port,
        profile=node.profile,
        gpus=profile.gpus.count if profile.gpus else 0,
        rails=profile.rails.count if profile.rails else 0,
        allow_gpu_processes=judged.node_variables[name].allow_gpu_processes,
        partners=partners.get(name, ()),
    )


def _partners(run: RunSpec) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for pair in scheduled(run):
        found.setdefault(pair.initiator, []).append(pair.responder)
        found.setdefault(pair.responder, []).append(pair.initiator)
    return {name: tuple(others) for name, others in found.items()}


def _write(folder: Path, run: RunSpec, ib_links: bytes | None, *, switch_latest: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    latest = folder.parent / LATEST
    if latest.exists() and not latest.is_symlink():
        raise InputError(f"{latest}: is no symbolic link; expected none or one: move it away")
    with _removed_on_failure(folder):
        (folder / "run.json").write_text(run.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if ib_links is not None:
            (folder / IB_LINKS_FILE).write_bytes(ib_links)
        _write_secret(folder / "secret")
        if switch_latest:
            point_latest_at(folder)


@contextlib.contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    folder.mkdir()
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write_secret(path: Path) -> None:
    # Created with its final mode: at no moment may another user read it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(SECRET_BYTES))
