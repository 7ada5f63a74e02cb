"""What a pod is told by its environment and its mounts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from gdrcheck.kubernetes.waits import JobWaits
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile
from gdrcheck.profile_file import load_profile
from gdrcheck.run import DEFAULT_PORT, NODE_NAME_PATTERN, RESERVED_NAMES, Deadlines

PREFIX = "GDRCHECK_"
IN_POD = Path("/run/gdrcheck")
# What a Job's name may be, so that its pods have host names (RFC 1123).
JOB_NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?$"
MAX_PODS = 10_000
SECRET_PATTERN = re.compile(r"[0-9a-f]{64}")
_PROFILE_SUFFIXES = (".yml", ".yaml")
_ROUNDS: TypeAdapter[int | Literal["all"]] = TypeAdapter(
    Annotated[int, Field(ge=1)] | Literal["all"]
)


class Environment(BaseModel):
    """The variables of a pod, by their names in lower case. Empty ones count as not set.

    ``job_completion_index`` is set by the Job controller, ``node_name`` and ``pod_ip`` by the
    downward API.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    job_completion_index: int = Field(ge=0)
    node_name: str = Field(pattern=NODE_NAME_PATTERN)
    pod_ip: str = Field(min_length=1, max_length=253)
    gdrcheck_job: str = Field(default="gdrcheck", pattern=JOB_NAME_PATTERN)
    gdrcheck_service: str = Field(default="gdrcheck", min_length=1, max_length=253)
    gdrcheck_pods: int = Field(ge=1, le=MAX_PODS)
    gdrcheck_leader: str | None = None
    gdrcheck_port: int = Field(default=DEFAULT_PORT, ge=1, le=65535)
    gdrcheck_job_port: int | None = Field(default=None, ge=1, le=65535)
    gdrcheck_time_scale: float = Field(default=1, gt=0, le=100)
    gdrcheck_arrival_s: float = Field(default=600, gt=0, le=86_400)
    gdrcheck_image_id: str = ""
    gdrcheck_lock: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Environment:
        if self.job_completion_index >= self.gdrcheck_pods:
            raise ValueError(
                f"JOB_COMPLETION_INDEX {self.job_completion_index} is no index of GDRCHECK_PODS "
                f"{self.gdrcheck_pods}; expected the Job's completions as GDRCHECK_PODS"
            )
        if self.node_name in RESERVED_NAMES:
            raise ValueError(f"NODE_NAME {self.node_name} is reserved")
        return self


@dataclass(frozen=True, slots=True)
class Settings:
    """A pod of a Job: which one, where, and what is to be measured.

    ``address`` is its own; ``leader_host`` is where index 0 is found. ``results`` is a folder that
    may be written to.
    """

    index: int
    pods: int
    job: str
    node: str
    address: str
    leader_host: str
    port: int
    job_port: int
    profile_name: str
    profile: Profile
    rounds: int | Literal["all"]
    time_scale: float
    deadlines: Deadlines
    arrival_s: float
    image_id: str
    secret: bytes = field(repr=False)
    secret_file: Path
    results: Path
    lock: Path | None = None
    ib_links: bytes | None = None

    @property
    def leads(self) -> bool:
        """Whether this pod is index 0."""
        return self.index == 0

    @property
    def me(self) -> str:
        """This pod's name for the other pods."""
        return pod_name(self.job, self.index)

    @property
    def scaled(self) -> Deadlines:
        """The deadlines of the run, scaled."""
        return self.deadlines.scaled(self.time_scale)

    @property
    def waits(self) -> JobWaits:
        """The waits of the pods for each other."""
        return JobWaits.scaled(self.time_scale)


def pod_name(job: str, index: int) -> str:
    """The stable name of a pod, which is also its host name below the headless Service."""
    return f"{job}-{index}"


def read_settings(environment: Mapping[str, str], root: Path = IN_POD, *, today: date) -> Settings:
    """What ``environment`` and the mounts below ``root`` say.

    ``profile/`` holds one profile, ``secret/secret`` the secret, and ``results/`` is for what is
    written. InputError with every problem.
    """
    problems: list[str] = []
    told = _environment(environment, problems)
    rounds = _rounds(environment, problems)
    deadlines = _deadlines(environment, problems)
    name, profile = _profile(root / "profile", today, problems)
    secret = _secret(root / "secret/secret", problems)
    ib_links = _ib_links(root / "profile/ib_links.txt", problems)
    results = root / "results"
    if not results.is_dir():
        problems.append(f"{results}: no such folder; expected a volume mounted there")
    if problems or told is None or profile is None:
        raise InputError(*problems)
    leader = told.gdrcheck_leader or f"{pod_name(told.gdrcheck_job, 0)}.{told.gdrcheck_service}"
    return Settings(
        index=told.job_completion_index,
        pods=told.gdrcheck_pods,
        job=told.gdrcheck_job,
        node=told.node_name,
        address=told.pod_ip,
        leader_host=leader,
        port=told.gdrcheck_port,
        job_port=told.gdrcheck_job_port or told.gdrcheck_port % 65535 + 1,
        profile_name=name,
        profile=profile,
        rounds=rounds,
        time_scale=told.gdrcheck_time_scale,
        deadlines=deadlines,
        arrival_s=told.gdrcheck_arrival_s,
        image_id=told.gdrcheck_image_id,
        secret=secret,
        secret_file=root / "secret/secret",
        results=results,
        lock=Path(told.gdrcheck_lock) if told.gdrcheck_lock else None,
        ib_links=ib_links,
    )


def _environment(environment: Mapping[str, str], problems: list[str]) -> Environment | None:
    values = {name.lower(): text for name, text in environment.items() if text}
    try:
        return Environment.model_validate(values)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in one["loc"]).upper()
            message = one["msg"].removeprefix("Value error, ")
            problems.append(f"environment: {name}: {message}" if name else message)
    return None


def _rounds(environment: Mapping[str, str], problems: list[str]) -> int | Literal["all"]:
    text = environment.get("GDRCHECK_ROUNDS") or "4"
    try:
        return _ROUNDS.validate_python(text)
    except ValidationError:
        problems.append(f"environment: GDRCHECK_ROUNDS: {text!r}: expected a number, or all")
        return 4


def _deadlines(environment: Mapping[str, str], problems: list[str]) -> Deadlines:
    text = environment.get("GDRCHECK_DEADLINES") or "{}"
    try:
        values: Any = json.loads(text)
        return Deadlines.model_validate(values)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            place = ".".join(str(part) for part in one["loc"])
            problems.append(f"environment: GDRCHECK_DEADLINES: {place}: {one['msg']}")
    except ValueError as error:
        problems.append(f"environment: GDRCHECK_DEADLINES: no JSON: {error}")
    return Deadlines()


def _profile(folder: Path, today: date, problems: list[str]) -> tuple[str, Profile | None]:
    """The one profile in ``folder``, and its name. A ConfigMap has hidden entries of its own."""
    files = sorted(
        path
        for path in folder.glob("*")
        if path.suffix in _PROFILE_SUFFIXES and not path.name.startswith(".")
    )
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        problems.append(f"{folder}: expected one profile, NAME.yml; found {names}")
        return "", None
    try:
        return files[0].stem, load_profile(files[0], today)
    except InputError as error:
        problems += error.problems
        return files[0].stem, None


def _secret(path: Path, problems: list[str]) -> bytes:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: {error}; expected the run's secret, 64 hex digits")
        return b""
    if not SECRET_PATTERN.fullmatch(text):
        problems.append(f"{path}: expected 64 hex digits")
        return b""
    return bytes.fromhex(text)


def _ib_links(path: Path, problems: list[str]) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path}: {error.strerror}")
        return None
