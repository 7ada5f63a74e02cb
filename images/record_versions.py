"""Write the versions that are in the image; fail the build when one is missing or too old.

Runs inside the image, with the image's own Python: record_versions.py OFED TARGET
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import platform
import subprocess
import sys
from pathlib import Path

# The oldest versions that the library is written for. pyverbs 44 is the first with a usable
# dma-buf registration; the providers and libraries come from the same source package.
MINIMA = {
    "ibverbs-providers": "44",
    "ibverbs-utils": "44",
    "infiniband-diags": "44",
    "libibverbs1": "44",
    "librdmacm1": "44",
    "perftest": "4.5",
    "python3": "3.11",
    "python3-pyverbs": "44",
    "rdmacm-utils": "44",
}
# What a node must be able to import; that it does so here proves the image whole.
IMPORTS = (
    "cuda.bindings.driver",
    "junitparser",
    "pydantic",
    "pytest",
    "pyverbs.cm_enums",
    "pyverbs.device",
    "pyverbs.qp",
    "xdist",
    "yaml",
)


def parse_packages(listing: str) -> dict[str, str]:
    """Package to version, of lines "package TAB version TAB provides".

    A package that provides another's name counts as it, unless that other one is there itself.
    """
    rows = [line.split("\t") for line in listing.splitlines()]
    versions = {package: version for package, version, _ in rows}
    for _, version, provides in rows:
        for provided in filter(None, provides.split(", ")):
            versions.setdefault(provided.split(" ")[0], version)
    return versions


def too_old(version: str, minimum: str) -> bool:
    """Whether Debian's own comparison puts `version` before `minimum`."""
    comparison = ["dpkg", "--compare-versions", version, "lt", minimum]
    return subprocess.run(comparison, check=False).returncode == 0


def unmet(installed: dict[str, str]) -> list[str]:
    """One sentence for every package that is missing or too old."""
    return [
        f"{package}: {installed.get(package, 'not installed')}, needed: {minimum} or newer"
        for package, minimum in MINIMA.items()
        if package not in installed or too_old(installed[package], minimum)
    ]


def main() -> int:
    """Exit code 1 with one message naming all that is wrong; else the file is written."""
    ofed, target = sys.argv[1], Path(sys.argv[2])
    listing = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${Provides}\n"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    installed = parse_packages(listing)
    problems = unmet(installed)
    if problems:
        print("the image does not meet the minima:\n  " + "\n  ".join(problems), file=sys.stderr)
        return 1
    for module in IMPORTS:
        importlib.import_module(module)
    versions = {
        "schema": 1,
        "distribution": platform.freedesktop_os_release()["PRETTY_NAME"],
        "ofed": ofed,
        "python": platform.python_version(),
        "apt": {package: installed[package] for package in sorted(MINIMA)},
        "pip": {
            distribution.name: distribution.version
            for distribution in sorted(
                importlib.metadata.distributions(path=["/usr/local/lib/python3.13/dist-packages"]),
                key=lambda distribution: distribution.name.lower(),
            )
        },
    }
    target.write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    target.chmod(0o644)
    return 0


if __name__ == "__main__":
    sys.exit(main())
