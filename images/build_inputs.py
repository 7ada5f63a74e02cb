"""What the image is made from, and what this machine adds to the build without leaving a trace."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from build_engine import BuildError

# What the Dockerfile copies, and itself.
INPUT_PATHS = (
    "Dockerfile",
    ".dockerignore",
    "checks",
    "gdrcheck",
    "images/apt.sh",
    "images/ofed",
    "images/perftest.sh",
    "images/record_versions.py",
    "images/wheels.sh",
    "pyproject.toml",
    "requirements/cuda-headers.txt",
    "requirements/image.txt",
)
CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
SYSTEM_CA_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
)
PIP_SETTINGS = {
    "PIP_INDEX_URL": "index-url",
    "PIP_EXTRA_INDEX_URL": "extra-index-url",
    "PIP_TRUSTED_HOST": "trusted-host",
    "PIP_DEFAULT_TIMEOUT": "timeout",
}
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy")
REPOSITORY = "localhost/gdrcheck"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """All that decides what is in the image.

    `base_id` is None when the base image is not there yet. `files` maps a path below the
    repository's root to the SHA-256 of its content.
    """

    base: str
    base_id: str | None
    version: str
    revision: str
    arguments: dict[str, str]
    files: dict[str, str]

    repository = REPOSITORY

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits; the same for the same inputs. The base counts by its id."""
        named = asdict(self)
        del named["base"]
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def tag(self) -> str:
        """The reference under which an image made from these inputs is kept."""
        return f"{self.repository}:inputs-{self.hash}"

    def to_json(self) -> str:
        """For people and scripts: everything, and the tag that follows from it."""
        return json.dumps({**asdict(self), "tag": self.tag}, indent=2)


def collect(root: Path) -> dict[str, str]:
    """Hash every input file below `root`; raises BuildError naming all paths that are missing."""
    missing = [path for path in INPUT_PATHS if not (root / path).exists()]
    if missing:
        raise BuildError(f"missing in {root}: {', '.join(missing)}")
    files = (
        file
        for path in INPUT_PATHS
        for file in ([root / path] if (root / path).is_file() else (root / path).rglob("*"))
        if file.is_file() and file.suffix != ".pyc"
    )
    return {
        file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(files)
    }


def revision(root: Path) -> str:
    """The last commit that touched an input, with "-dirty" when one differs from it.

    "unknown" outside a git checkout. Other commits leave the image as it is.
    """

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(root), *arguments, "--", *INPUT_PATHS]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("log", "-1", "--format=%H")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if git("status", "--porcelain") else commit


def ca_bundle(
    environment: Mapping[str, str],
    requested: Path | None,
    system_bundles: tuple[Path, ...] = SYSTEM_CA_BUNDLES,
) -> Path | None:
    """The certificate authorities that downloads of the build are checked against.

    In this order: the one asked for, the one that the environment names for this machine's own
    clients, the system's. The system's is taken even if nothing says so, since that is where a
    company's own authority is usually put. None: what the base image and pip bring along.
    Raises BuildError if a named file does not exist.
    """
    named = [("--ca-bundle", requested)] if requested else []
    named += [(name, Path(environment[name])) for name in CA_VARIABLES if environment.get(name)]
    if named:
        origin, file = named[0]
        if not file.is_file():
            raise BuildError(f"{origin} names {file}, which is not a file")
        return file
    return next((file for file in system_bundles if file.is_file()), None)


def pip_conf(environment: Mapping[str, str]) -> str:
    """This machine's pip settings for the build, as a pip.conf; empty when there are none.

    Given as a secret file, because an index URL may hold a password.
    """
    lines = [
        f"{key} = {' '.join(environment[name].split())}"
        for name, key in PIP_SETTINGS.items()
        if environment.get(name)
    ]
    return "\n".join(["[global]", *lines, ""]) if lines else ""


def proxy_arguments(environment: Mapping[str, str]) -> list[str]:
    """This machine's proxies as build arguments; both engines keep these out of the image."""
    arguments: list[str] = []
    for name in PROXY_VARIABLES:
        value = environment.get(name) or environment.get(name.upper())
        if value:
            arguments += [
                "--build-arg",
                f"{name}={value}",
                "--build-arg",
                f"{name.upper()}={value}",
            ]
    return arguments
