"""``gdrcheck kubernetes render``: the folder that ``kubectl apply -k`` starts a run from."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck.kubernetes import render_files as files
from gdrcheck.kubernetes.deadlines import JobDeadlines, nested
from gdrcheck.kubernetes.render_request import Request, read_request
from gdrcheck.outcome import InputError
from gdrcheck.results.folder import IB_LINKS_FILE

MANIFESTS = Path(__file__).resolve().parents[2] / "kubernetes"
SECRET_BYTES = 32


def run(args: argparse.Namespace) -> int:
    """Make the folder that ``args`` asks for, and say what is next; 0.

    InputError with everything that is wrong, and then there is no folder.
    """
    request = read_request(args, datetime.now(UTC).date())
    deadlines = nested(request.time_scale, request.arrival_s)
    render(request, deadlines)
    for line in _warnings(request):
        print(line, file=sys.stderr)
    print(_next(request, deadlines))
    return 0


def render(request: Request, deadlines: JobDeadlines, manifests: Path = MANIFESTS) -> None:
    """Write the folder of ``request``: copies of ``manifests``, of the profile, and a new secret.

    InputError if that cannot be done; nothing is left then.
    """
    if not manifests.is_dir():
        raise InputError(f"{manifests}: no such folder; expected a checkout of gdrcheck")
    if manifests.resolve() in request.out.resolve().parents:
        raise InputError(
            f"--out {request.out}: is in {manifests}, which is copied; expected another"
        )
    try:
        request.out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out {error.filename or request.out}: {error.strerror}") from error
    try:
        _write(request, deadlines, manifests)
    except BaseException as error:
        shutil.rmtree(request.out, ignore_errors=True)
        if isinstance(error, OSError):
            # copytree has no such word of its own, but a list of them.
            why = error.strerror or error
            raise InputError(f"{error.filename or request.out}: {why}") from error
        raise


def _write(request: Request, deadlines: JobDeadlines, manifests: Path) -> None:
    needed = ["base", f"overlays/{request.overlay}"]
    needed += [f"components/{name}" for name in request.components]
    for name in needed:
        shutil.copytree(manifests / name, request.out / files.MANIFESTS / name)
    for name, text in files.texts(request, deadlines).items():
        (request.out / name).write_text(text, encoding="utf-8")
    folder = request.out / files.PROFILE_FOLDER
    folder.mkdir()
    (folder / request.profile_file.name).write_bytes(request.profile_file.read_bytes())
    if request.ib_links is not None:
        (folder / IB_LINKS_FILE).write_bytes(request.ib_links)
    # The folder may be made in a checkout, and holds a secret.
    (request.out / ".gitignore").write_text("*\n", encoding="ascii")
    _write_secret(request.out / files.SECRET_FILE)


def _write_secret(path: Path) -> None:
    # Created with its final mode: at no moment may another user read it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(SECRET_BYTES))


def _warnings(request: Request) -> list[str]:
    found = []
    if not request.image.digest:
        found.append(
            f"--image: {request.image.name}:{request.image.tag} names no digest: whether all "
            "nodes run the same image is then not judged; NAME@sha256:DIGEST says which one"
        )
    if request.image.is_of_this_machine:
        found.append(
            f"--image: {request.image.name} names no registry: nodes that do not have it already "
            "will not find it"
        )
    rails = request.profile.rails
    if request.overlay == "sriov" and rails and any(nic.netdev is None for nic in rails.nics):
        found.append(
            f"{request.profile_file}: rails.nics: a pod gets other virtual functions each time, of "
            "other names and slots; {netdev: net1}, {netdev: net2} and so on select them"
        )
    if request.nodes == 1 and request.profile.pairs == "required":
        found.append(
            "--nodes 1: one node measures no pair, so the verdict will be INCOMPLETE; "
            "the profile may say pairs: none"
        )
    found += [
        f"{request.profile_file}: {key} is left out: the verdict will be INCOMPLETE at best"
        for key in request.profile.missing_core()
    ]
    return found


def _next(request: Request, deadlines: JobDeadlines) -> str:
    out, words = request.out, shlex.quote(str(request.out))
    pods = "1 pod" if request.nodes == 1 else f"{request.nodes} pods"
    return "\n".join(
        (
            f"{out}: a Job of {pods} in the namespace {request.namespace}, overlay "
            f"{request.overlay}; it ends after {deadlines.job_s} s at the latest",
            f"{out / files.SITE_FILE} is yours to change; {out / files.SECRET_FILE} is secret",
            f"all of it:  ansible-playbook playbooks/kubernetes.yml -e gdrcheck_rendered={words}",
            f"or by hand: kubectl apply -k {words}   # and then as docs/kubernetes.md says",
        )
    )
