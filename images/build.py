#!/usr/bin/env python3
"""Build the container image with podman or docker; `make image` calls this.

Standard library only. Progress goes to stderr, the id of the image to stdout. An image made from
the same inputs is used again: it carries a second tag with the hash of what it was made from.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import tomllib
from contextlib import ExitStack
from pathlib import Path

from build_engine import BuildError, Engine, Progress, find_engine
from build_inputs import Inputs, ca_bundle, collect, pip_conf, proxy_arguments, revision

ROOT = Path(__file__).resolve().parent.parent
LOCAL_BASE = "localhost/debian:trixie"
PUBLISHED_BASE = "debian:trixie-slim"
SIZE_LIMIT_MB = 450
KEPT_OLDER_IMAGES = 5
VERSIONS_FILE = "/opt/gdrcheck/versions.json"


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; exits 2 with a message when it is wrong."""
    parser = argparse.ArgumentParser(prog="build.py", description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=["auto", "podman", "docker"], default="auto")
    parser.add_argument("--tag", default="localhost/gdrcheck:dev")
    parser.add_argument(
        "--base-image",
        default="auto",
        metavar="REF",
        help=f"auto: {PUBLISHED_BASE} if present or pullable, else one made with mmdebstrap",
    )
    parser.add_argument("--mirror", metavar="URL", help="Debian mirror for a base made here")
    parser.add_argument("--ofed", choices=["inbox", "doca"], default="inbox")
    parser.add_argument(
        "--doca-source",
        default="",
        metavar="SOURCE",
        help="for --ofed doca: URL of its apt repository or of a doca-host .deb, or the name of"
        " such a file in images/ofed/packages/",
    )
    parser.add_argument(
        "--ca-bundle",
        type=Path,
        metavar="FILE",
        help="certificate authorities for the downloads of the build (default: this machine's)",
    )
    parser.add_argument("--no-cache", action="store_true", help="build every layer anew")
    parser.add_argument(
        "--print-inputs", action="store_true", help="print what the image is made from, and stop"
    )
    options = parser.parse_args(arguments)
    if options.ofed == "doca" and not options.doca_source:
        parser.error("--ofed doca needs --doca-source")
    if options.ofed != "doca" and options.doca_source:
        parser.error("--doca-source is for --ofed doca")
    return options


def present_base(engine: Engine, requested: str) -> str | None:
    """The reference of a base image that is here, if one is."""
    candidates = [PUBLISHED_BASE, LOCAL_BASE] if requested == "auto" else [requested]
    return next((candidate for candidate in candidates if engine.image_id(candidate)), None)


def find_base(engine: Engine, requested: str, mirror: str | None, progress: Progress) -> str:
    """The reference of a base image; pulls or makes it where it is not here."""
    present = present_base(engine, requested)
    if present:
        progress.step(f"base image {present} (present)")
        return present
    wanted = PUBLISHED_BASE if requested == "auto" else requested
    progress.step(f"pulling the base image {wanted}")
    refusal = engine.pull(wanted)
    if refusal is None:
        return wanted
    if requested != "auto":
        raise BuildError(
            f"base image {requested}: neither present nor pullable: {refusal}\n"
            "name another with --base-image, or load it into the engine first"
        )
    progress.step(f"not pullable ({refusal}); making {LOCAL_BASE} with mmdebstrap")
    engine.import_debian(LOCAL_BASE, suite="trixie", mirror=mirror)
    return LOCAL_BASE


def build_arguments(options: argparse.Namespace, base: str) -> list[str]:
    """What both passes of the build are given."""
    return [
        *("--build-arg", f"BASE_IMAGE={base}"),
        *("--build-arg", f"OFED={options.ofed}"),
        *("--build-arg", f"DOCA_SOURCE={options.doca_source}"),
        *proxy_arguments(os.environ),
    ]


def secret_arguments(options: argparse.Namespace, scratch: Path) -> list[str]:
    """Files that the build may read and that neither a layer nor the history keeps."""
    secrets = []
    bundle = ca_bundle(os.environ, options.ca_bundle)
    if bundle:
        secrets += ["--secret", f"id=ca_bundle,src={bundle}"]
    settings = pip_conf(os.environ)
    if settings:
        file = scratch / "pip.conf"
        file.write_text(settings, encoding="utf-8")
        secrets += ["--secret", f"id=pip_conf,src={file}"]
    return secrets


def label_arguments(version: str, commit: str, apt_versions: dict[str, str]) -> list[str]:
    """What the labels say beyond what the Dockerfile knows."""
    packages = ",".join(f"{name}={found}" for name, found in sorted(apt_versions.items()))
    return [
        *("--build-arg", f"VERSION={version}"),
        *("--build-arg", f"REVISION={commit}"),
        *("--build-arg", f"APT_VERSIONS={packages}"),
    ]


def build(engine: Engine, options: argparse.Namespace, inputs: Inputs, progress: Progress) -> str:
    """Build in two passes, since the labels name versions that the first one finds out.

    Returns the id of the image, tagged with `options.tag` and the hash of its inputs.
    """
    isolation = engine.isolation(inputs.base)
    progress.step(f"build isolation: {isolation.reason}")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gdrcheck-image-")))
        common = [
            *isolation.arguments,
            *build_arguments(options, inputs.base),
            *secret_arguments(options, scratch),
        ]
        first = [*common, "--no-cache"] if options.no_cache else common
        progress.step("building the runtime layers")
        runtime = engine.build(ROOT, [*first, "--target", "runtime"], progress)
        apt_versions = json.loads(engine.read_file(runtime, VERSIONS_FILE, scratch))["apt"]
        progress.step("building the project's layer")
        labels = label_arguments(inputs.version, inputs.revision, apt_versions)
        image = engine.build(ROOT, [*common, *labels, "--target", "image"], progress)
    engine.tag(image, inputs.tag)
    engine.tag(image, options.tag)
    engine.forget_older(inputs.repository, keep=KEPT_OLDER_IMAGES)
    return image


def gather_inputs(engine: Engine, options: argparse.Namespace, base: str) -> Inputs:
    """What the image is made from."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    return Inputs(
        base=base,
        base_id=engine.image_id(base),
        version=version,
        revision=revision(ROOT),
        arguments={"ofed": options.ofed, "doca_source": options.doca_source},
        files=collect(ROOT),
    )


def report(engine: Engine, image: str, tag: str, progress: Progress) -> None:
    """Say what the image is; raise BuildError when it has grown over the limit."""
    size_mb = engine.size_bytes(image) / 1e6
    progress.step(f"{tag}: {size_mb:.0f} MB of at most {SIZE_LIMIT_MB}")
    if size_mb > SIZE_LIMIT_MB:
        raise BuildError(f"the image has {size_mb:.0f} MB; the limit is {SIZE_LIMIT_MB} MB")


def run(options: argparse.Namespace, progress: Progress) -> str:
    """Build the image, or find the one made from the same inputs; returns what to print."""
    engine = find_engine(options.engine)
    progress.step(f"engine: {engine.name}")
    if options.print_inputs:
        present = present_base(engine, options.base_image)
        return gather_inputs(engine, options, present or options.base_image).to_json()
    for warning in engine.warnings():
        progress.step(f"warning: {warning}")
    base = find_base(engine, options.base_image, options.mirror, progress)
    inputs = gather_inputs(engine, options, base)
    image = None if options.no_cache else engine.image_id(inputs.tag)
    if image:
        progress.step(f"nothing has changed: using {inputs.tag}")
        engine.tag(image, options.tag)
    else:
        image = build(engine, options, inputs, progress)
    report(engine, image, options.tag, progress)
    return image


def main() -> int:
    """Exit code 0, or 1 with one message on stderr."""
    progress = Progress(sys.stderr)
    try:
        print(run(parse_arguments(), progress))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was built so far is used next time", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
