"""What ``gdrcheck kubernetes render`` is asked for, read and checked as a whole."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal, TypeVar

from gdrcheck import __version__, ib_links
from gdrcheck.kubernetes import render_words as words
from gdrcheck.kubernetes.render_promises import unkept
from gdrcheck.kubernetes.settings import MAX_PODS, pod_name
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile
from gdrcheck.profile_file import SUFFIX, load_profile
from gdrcheck.results.folder import IB_LINKS_FILE
from gdrcheck.results.round_limits import too_many_rounds
from gdrcheck.run import NodeSpec, RunSpec, new_run_id
from gdrcheck.variables import PROFILE_NAME_PATTERN

# Namespaces of the cluster itself, and the one that everybody uses: this run changes a label.
NOT_OURS = re.compile(r"default|kube-.*")
DAY_S = 86_400.0
# kubectl apply keeps a copy of what it applied in an annotation, of 256 KiB at most.
MAX_MAP_BYTES = 200_000
MIN_MEMORY_BYTES = 4 << 30
Value = TypeVar("Value", int, float)


@dataclass(frozen=True, slots=True)
class Request:
    """A Job to be rendered. ``resources`` is what a pod takes; ``ib_links`` None without a list."""

    profile_file: Path
    profile: Profile
    nodes: int
    image: words.Image
    rounds: int | Literal["all"]
    time_scale: float
    arrival_s: float
    port: int
    neighbours: str
    ib_links: bytes | None
    overlay: str
    components: tuple[str, ...]
    resources: dict[str, str]
    networks: tuple[str, ...]
    namespace: str
    node_selector: dict[str, str]
    tolerations: tuple[str, ...]
    out: Path


def read_request(args: argparse.Namespace, today: date) -> Request:
    """The request that the options ask for. InputError with every problem."""
    problems: list[str] = []
    profile = _profile(args.profile, today, problems)
    image = words.image(args.image)
    if image is None:
        problems.append(
            f"--image {args.image}: is no reference; expected NAME@sha256:DIGEST or NAME:TAG"
        )
    nodes = _number(args.nodes, "--nodes", int, 1, MAX_PODS, problems)
    time_scale = _number(args.time_scale, "--time-scale", float, 0.01, 100.0, problems)
    arrival_s = _number(args.arrival_s, "--arrival-s", float, 1.0, DAY_S, problems)
    port = _number(args.port, "--port", int, 1, 65534, problems)
    rounds: int | Literal["all"] = "all"
    if args.rounds != "all":
        rounds = _number(args.rounds, "--rounds", int, 1, MAX_PODS, problems, " or all")
    devices = _counts(args.rdma_resource, problems)
    if not words.RESOURCE.fullmatch(args.gpu_resource):
        problems.append(_no_resource("--gpu-resource", args.gpu_resource))
    elif args.gpu_resource in devices:
        problems.append(
            f"--rdma-resource {args.gpu_resource}: is what --gpu-resource names; expected another"
        )
    if not words.LABEL.fullmatch(args.namespace) or NOT_OURS.fullmatch(args.namespace):
        problems.append(
            f"--namespace {args.namespace}: expected a name of a-z, 0-9 and '-', of a namespace "
            "that is used for nothing else"
        )
    for name in args.network:
        if not words.NETWORK.fullmatch(name):
            problems.append(
                f"--network {name}: expected a network attachment, as NAME, NAMESPACE/NAME or "
                "NAME@INTERFACE, of a-z, 0-9, '-' and '.'"
            )
    for key in args.toleration:
        if not words.KEY.fullmatch(key):
            problems.append(
                f"--toleration {key}: expected the key of a taint alone, as in nvidia.com/gpu; any "
                "value and effect of it is tolerated"
            )
    selector = _labels(args.node_selector, problems)
    links = _ib_links(args.ib_links, problems)
    if args.out.exists() or args.out.is_symlink():
        problems.append(f"--out {args.out}: is there already; expected a folder to be made")
    if profile is not None:
        problems += unkept(profile, args, devices)
        # Of wrong numbers nothing can be told.
        if not problems:
            problems += _rounds(profile, nodes, rounds, time_scale)
    cpu, memory = _size(args, profile, problems)
    if problems or profile is None or image is None:
        raise InputError(*dict.fromkeys(problems))
    gpus = profile.gpus.count if profile.gpus else 0
    return Request(
        profile_file=args.profile,
        profile=profile,
        nodes=nodes,
        image=image,
        rounds=rounds,
        time_scale=time_scale,
        arrival_s=arrival_s,
        port=port,
        neighbours=args.neighbours,
        ib_links=links,
        overlay=args.overlay,
        components=tuple(dict.fromkeys(args.component)),
        resources={
            "cpu": cpu,
            "memory": memory,
            **({args.gpu_resource: str(gpus)} if gpus else {}),
            **{name: str(count) for name, count in devices.items()},
        },
        networks=tuple(args.network),
        namespace=args.namespace,
        node_selector=selector,
        tolerations=tuple(dict.fromkeys(args.toleration)),
        out=args.out,
    )


def _profile(file: Path, today: date, problems: list[str]) -> Profile | None:
    if file.suffix != SUFFIX or not re.fullmatch(PROFILE_NAME_PATTERN, file.stem):
        problems.append(f"--profile {file}: expected a file NAME{SUFFIX}, as an inventory has")
    try:
        return load_profile(file, today)
    except InputError as error:
        problems += error.problems
        return None


def _number(
    text: str,
    option: str,
    kind: Callable[[str], Value],
    least: Value,
    most: Value,
    problems: list[str],
    otherwise: str = "",
) -> Value:
    """``text`` as a number from ``least`` to ``most``; ``least``, with a problem noted, if none."""
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        what = "a whole number" if kind is int else "a number"
        problems.append(f"{option} {text}: expected {what} from {least:g} to {most:g}{otherwise}")
        return least
    return value


def _rounds(
    profile: Profile, nodes: int, rounds: int | Literal["all"], time_scale: float
) -> Iterator[str]:
    """Why so many rounds cannot come to a result, by the same rules as over ssh."""
    name = "profile"
    now = datetime.now(UTC)
    run = RunSpec(
        run_id=new_run_id(now),
        created=now,
        gdrcheck_version=__version__,
        nodes=tuple(
            NodeSpec(name=pod_name("gdrcheck", index), address="", profile=name)
            for index in range(nodes)
        ),
        profiles={name: profile},
        rounds=rounds,
        time_scale=time_scale,
    )
    return too_many_rounds(run, "--rounds", "a larger --time-scale")


def _counts(texts: Sequence[str], problems: list[str]) -> dict[str, int]:
    """The resources in a list of ``NAME=COUNT``."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, count = text.partition("=")
        if not words.RESOURCE.fullmatch(name) or not re.fullmatch("[1-9][0-9]{0,3}", count):
            problems.append(
                f"--rdma-resource {text}: expected NAME=COUNT, as in "
                "rdma/rdma_shared_device_a=1; kubectl describe node lists the names as Allocatable"
            )
        elif name in found:
            problems.append(f"--rdma-resource {text}: {name} is given twice; expected once")
        else:
            found[name] = int(count)
    return found


def _no_resource(option: str, text: str) -> str:
    return f"{option} {text}: expected the name of a resource, as in nvidia.com/gpu"


def _labels(texts: Sequence[str], problems: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not words.KEY.fullmatch(key) or not words.VALUE.fullmatch(value):
            problems.append(f"--node-selector {text}: expected LABEL=VALUE")
        elif found.setdefault(key, value) != value:
            problems.append(f"--node-selector {text}: no node has {key}={found[key]} as well")
    return found


def _ib_links(file: Path | None, problems: list[str]) -> bytes | None:
    if file is None:
        return None
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_MAP_BYTES + 1)
    except OSError as error:
        problems.append(f"--ib-links {file}: {error.strerror}; {ib_links.EXPECTED}")
        return None
    if len(data) > MAX_MAP_BYTES:
        problems.append(
            f"--ib-links {file}: larger than {MAX_MAP_BYTES} bytes, too large for a ConfigMap; "
            f"leave it out, put it into the results as {IB_LINKS_FILE}, and merge again"
        )
        return None
    try:
        ib_links.parse(data.decode("utf-8", "replace"), f"--ib-links {file}")
    except InputError as error:
        problems += error.problems
    return data


def _size(
    args: argparse.Namespace, profile: Profile | None, problems: list[str]
) -> tuple[str, str]:
    """CPUs and memory of a pod, by the number of rails where nothing was said."""
    rails = profile.rails.count if profile is not None and profile.rails else 1
    cpu = args.cpu or str(2 + 2 * rails)
    memory = args.memory or f"{4 + 2 * rails}Gi"
    # Whole CPUs: only these can be a pod's alone.
    if not re.fullmatch("[1-9][0-9]{0,3}", cpu):
        problems.append(f"--cpu {cpu}: expected a whole number")
    if not words.QUANTITY.fullmatch(memory):
        problems.append(f"--memory {memory}: expected a size such as 20Gi")
    elif words.quantity_bytes(memory) < MIN_MEMORY_BYTES:
        problems.append(
            f"--memory {memory}: expected {MIN_MEMORY_BYTES >> 30}Gi or more: /tmp and /dev/shm, "
            "of 1Gi each, count against it"
        )
    return cpu, memory
