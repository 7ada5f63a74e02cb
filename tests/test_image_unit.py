"""What can be said about the image and its build without building it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gdrcheck

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "images"
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
SHELL_SCRIPTS = sorted([*IMAGES.glob("*.sh"), *(IMAGES / "ofed").glob("*.sh")])


def load(name: str) -> ModuleType:
    """A script of images/, under a name that hides no package."""
    sys.path.insert(0, str(IMAGES))
    try:
        spec = importlib.util.spec_from_file_location(f"image_{name}", IMAGES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(IMAGES))
    return module


build = load("build")
record_versions = load("record_versions")
build_engine = sys.modules["build_engine"]
build_inputs = sys.modules["build_inputs"]
BuildError = build_engine.BuildError


def dockerfile() -> str:
    """Its instructions: no comments, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", " ")


# The engine


def usable(**reasons: str | None) -> Any:
    return lambda name: reasons[name]


def test_podman_is_preferred() -> None:
    assert build_engine.choose_engine("auto", usable(podman=None, docker=None)) == "podman"


def test_docker_is_taken_where_podman_is_not_usable() -> None:
    assert build_engine.choose_engine("auto", usable(podman="broken", docker=None)) == "docker"


def test_the_engine_asked_for_is_not_replaced() -> None:
    with pytest.raises(BuildError, match="docker: no daemon"):
        build_engine.choose_engine("docker", usable(podman=None, docker="no daemon"))


def test_no_engine_names_every_reason() -> None:
    with pytest.raises(BuildError, match=r"podman: not installed; docker: no daemon"):
        build_engine.choose_engine("auto", usable(podman="not installed", docker="no daemon"))


def test_isolation_is_the_default_where_that_works() -> None:
    assert build_engine.choose_isolation("podman", None).arguments == ("--network=host",)


def test_isolation_is_chroot_elsewhere_and_says_why() -> None:
    isolation = build_engine.choose_isolation("podman", "setrlimit: not permitted")
    assert "--isolation=chroot" in isolation.arguments
    assert "setrlimit: not permitted" in isolation.reason


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[1/2] STEP 4/4: RUN --mount=type=secret,id=a,mode=0444     sh x.sh /a", "sh x.sh /a"),
        ("STEP 2/2: RUN true", "true"),
        ("#9 [wheels 4/4] RUN --mount=type=secret,id=a sh x.sh", "sh x.sh"),
        ("[1/2] STEP 2/4: COPY images/apt.sh /opt", None),
        ("Setting up perftest; RUN it", None),
    ],
)
def test_steps_are_shown_for_both_engines(line: str, step: str | None) -> None:
    assert build_engine.step_of(line) == step


# The base image


class FakeEngine:
    """Has the images named, and pulls those named."""

    def __init__(self, present: tuple[str, ...] = (), pullable: tuple[str, ...] = ()) -> None:
        self.present = {reference: f"sha256:{reference}" for reference in present}
        self.pullable = pullable
        self.made: list[str] = []

    def image_id(self, reference: str) -> str | None:
        return self.present.get(reference)

    def pull(self, reference: str) -> str | None:
        return None if reference in self.pullable else "no such host"

    def import_debian(self, reference: str, *, suite: str, mirror: str | None) -> None:
        self.made.append(f"{reference} {suite} {mirror}")


@pytest.mark.parametrize(
    ("engine", "requested", "found"),
    [
        (FakeEngine(present=("debian:trixie-slim",)), "auto", "debian:trixie-slim"),
        (FakeEngine(present=("localhost/debian:trixie",)), "auto", "localhost/debian:trixie"),
        (FakeEngine(pullable=("debian:trixie-slim",)), "auto", "debian:trixie-slim"),
        (FakeEngine(pullable=("my/base:1",)), "my/base:1", "my/base:1"),
    ],
)
def test_base_image_is_taken_where_it_is(engine: FakeEngine, requested: str, found: str) -> None:
    base = build.find_base(engine, requested, None, build_engine.Progress(StringIO()))
    assert base == found
    assert engine.made == []


def test_base_image_is_made_where_no_registry_answers() -> None:
    engine, said = FakeEngine(), StringIO()
    base = build.find_base(engine, "auto", "mirror", build_engine.Progress(said))
    assert base == "localhost/debian:trixie"
    assert engine.made == ["localhost/debian:trixie trixie mirror"]
    assert "no such host" in said.getvalue()


def test_a_base_image_asked_for_is_never_replaced() -> None:
    engine = FakeEngine(present=("localhost/debian:trixie",))
    with pytest.raises(BuildError, match="my/base:1: neither present nor pullable: no such host"):
        build.find_base(engine, "my/base:1", None, build_engine.Progress(StringIO()))


# The options


@pytest.mark.parametrize("words", [["--ofed", "doca"], ["--doca-source", "x"], ["--ofed", "mofed"]])
def test_options_that_do_not_fit_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        build.parse_arguments(words)
    assert refusal.value.code == 2


# What this machine adds to the build


def test_ca_bundle_asked_for_comes_first(tmp_path: Path) -> None:
    asked, named = tmp_path / "asked.pem", tmp_path / "named.pem"
    asked.touch()
    named.touch()
    assert build_inputs.ca_bundle({"SSL_CERT_FILE": str(named)}, asked) == asked


@pytest.mark.parametrize("variable", ["PIP_CERT", "SSL_CERT_FILE", "CURL_CA_BUNDLE"])
def test_ca_bundle_of_the_environment_comes_before_the_systems(
    tmp_path: Path, variable: str
) -> None:
    named, system = tmp_path / "named.pem", tmp_path / "system.pem"
    named.touch()
    system.touch()
    assert build_inputs.ca_bundle({variable: str(named)}, None, (system,)) == named


def test_ca_bundle_of_the_system_is_taken_unasked(tmp_path: Path) -> None:
    system = tmp_path / "system.pem"
    system.touch()
    assert build_inputs.ca_bundle({}, None, (tmp_path / "absent.pem", system)) == system
    assert build_inputs.ca_bundle({}, None, (tmp_path / "absent.pem",)) is None


def test_ca_bundle_that_is_named_but_absent_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"CURL_CA_BUNDLE names .*absent\.pem"):
        build_inputs.ca_bundle({"CURL_CA_BUNDLE": str(tmp_path / "absent.pem")}, None)


def test_pip_settings_become_a_file() -> None:
    settings = {"PIP_INDEX_URL": "a", "PIP_EXTRA_INDEX_URL": "b\n c", "PIP_FIND_LINKS": "/here"}
    assert build_inputs.pip_conf(settings) == "[global]\nindex-url = a\nextra-index-url = b c\n"
    assert build_inputs.pip_conf({"PIP_FIND_LINKS": "/here"}) == ""


def test_pip_settings_and_authorities_reach_the_build_as_secrets_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    monkeypatch.setenv("PIP_INDEX_URL", "index-with-password")
    options = build.parse_arguments(["--ca-bundle", str(bundle)])
    secrets = build.secret_arguments(options, tmp_path)
    assert secrets[::2] == ["--secret", "--secret"]
    arguments = [*secrets, *build.build_arguments(options, "base")]
    assert not any("index-with-password" in argument for argument in arguments)


def test_proxies_are_passed_in_both_spellings() -> None:
    arguments = build_inputs.proxy_arguments({"HTTPS_PROXY": "p"})
    assert arguments == ["--build-arg", "https_proxy=p", "--build-arg", "HTTPS_PROXY=p"]


# The inputs' hash

INPUTS = build_inputs.Inputs(
    base="debian:trixie-slim",
    base_id="1",
    version="1",
    revision="1",
    arguments={"ofed": "inbox"},
    files={"a": "1"},
)


@pytest.mark.parametrize(
    "change",
    [
        {"base_id": "2"},
        {"version": "2"},
        {"revision": "2"},
        {"arguments": {"ofed": "doca"}},
        {"files": {"a": "2"}},
        {"files": {"b": "1"}},
    ],
    ids=str,
)
def test_every_input_counts(change: dict[str, Any]) -> None:
    assert replace(INPUTS, **change).tag != INPUTS.tag


def test_the_same_base_under_another_name_is_the_same() -> None:
    assert replace(INPUTS, base="mirror/debian:trixie-slim").tag == INPUTS.tag
    assert json.loads(INPUTS.to_json())["tag"] == INPUTS.tag


def make_inputs(root: Path) -> None:
    for name in build_inputs.INPUT_PATHS:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            path.mkdir()
            (path / "content.py").write_text("1", encoding="utf-8")
        else:
            path.write_text("1", encoding="utf-8")


def test_compiled_files_do_not_count_but_every_source_does(tmp_path: Path) -> None:
    make_inputs(tmp_path)
    before = build_inputs.collect(tmp_path)
    (tmp_path / "gdrcheck" / "content.pyc").write_text("2", encoding="utf-8")
    assert build_inputs.collect(tmp_path) == before
    (tmp_path / "gdrcheck" / "content.py").write_text("2", encoding="utf-8")
    assert build_inputs.collect(tmp_path) != before


def test_all_missing_inputs_are_named_at_once(tmp_path: Path) -> None:
    make_inputs(tmp_path)
    (tmp_path / "Dockerfile").unlink()
    (tmp_path / "requirements" / "image.txt").unlink()
    with pytest.raises(BuildError, match=r"Dockerfile, requirements/image\.txt"):
        build_inputs.collect(tmp_path)


def test_outside_a_checkout_the_revision_is_unknown(tmp_path: Path) -> None:
    assert build_inputs.revision(tmp_path) == "unknown"


# The Dockerfile


def test_all_that_the_dockerfile_copies_is_an_input() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+)$", dockerfile(), flags=re.MULTILINE)
    sources = {source.rstrip("/") for copy in copies for source in copy.split()[:-1]}
    assert sources
    assert sources <= set(build_inputs.INPUT_PATHS)


def test_all_inputs_reach_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        path for path in build_inputs.INPUT_PATHS if path not in ("Dockerfile", ".dockerignore")
    }
    assert {path.split("/")[0] for path in copied} == let_in
    assert not copied & set(lines)


def test_the_dockerfile_keeps_no_secret_and_asks_for_no_privilege() -> None:
    text = dockerfile()
    assert not re.search(r"privileged|security=insecure|--device", text)
    assert not re.search(r"^(ARG|ENV).*(PASSWORD|TOKEN|SECRET|PIP_|_KEY)", text, re.M | re.I)
    assert not re.search(r"^(COPY|ADD).*(\.pem|\.crt|pip\.conf)", text, re.M)
    assert not re.search(r"^USER", text, re.M)


def test_the_labels_are_complete() -> None:
    text = dockerfile()
    for name in ("title", "description", "version", "revision", "licenses"):
        assert f"org.opencontainers.image.{name}=" in text
    arguments = build.label_arguments("1", "abc", {"perftest": "25", "libibverbs1": "56"})
    assert "APT_VERSIONS=libibverbs1=56,perftest=25" in arguments
    for argument in arguments[1::2]:
        assert re.search(rf"^ARG {argument.split('=')[0]}=unknown$", text, re.M)


def test_no_host_of_a_registry_or_mirror_is_named() -> None:
    files = [ROOT / "Dockerfile", *REQUIREMENTS, *SHELL_SCRIPTS, *IMAGES.glob("*.py")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\w+://[\w-]+\.\w|--(extra-)?index-url|--find-links", text), file


@pytest.mark.parametrize("script", SHELL_SCRIPTS, ids=lambda path: path.name)
def test_shell_scripts_parse(script: Path) -> None:
    # Those of the image run under its sh, which knows less than bash does.
    shell = "bash" if script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash") else "sh"
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The requirements


def requirements(file: Path) -> list[str]:
    """One string per requirement, its hashes in it."""
    text = file.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_environments_are_these() -> None:
    assert [file.stem for file in REQUIREMENTS] == [
        "controller",
        "cuda-headers",
        "cuda13",
        "dev",
        "image",
    ]


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_is_pinned_and_hashed(file: Path) -> None:
    lines = requirements(file)
    assert lines
    for line in lines:
        assert re.match(r"[\w.-]+==[\w.]+ ", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line


def test_all_environments_have_the_same_versions() -> None:
    def pins(file: Path) -> set[str]:
        return {line.split(" --hash")[0].split()[0] for line in requirements(file)}

    controller, headers, newer, dev, image = (pins(file) for file in REQUIREMENTS)
    assert controller <= dev
    assert image <= dev
    # The one that the tests run beside the others differs in nothing else.
    assert {pin.split("==")[0] for pin in newer - dev} == {"cuda-bindings"}
    # What perftest is built with, of the CUDA that the image's binding is for.
    (header,) = headers
    binding = next(pin for pin in image if pin.startswith("cuda-bindings=="))
    assert header.startswith("nvidia-cuda-runtime-cu12==")
    assert header.split("==")[1].split(".")[:2] == binding.split("==")[1].split(".")[:2]


def test_the_version_is_stated_once() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == gdrcheck.__version__


# The minima, as they are judged inside the image


def enough() -> dict[str, str]:
    return dict.fromkeys(record_versions.MINIMA, "56.1-1")


def test_new_enough_packages_meet_the_minima() -> None:
    assert record_versions.unmet(enough()) == []


def test_old_and_missing_packages_are_all_named() -> None:
    installed = {**enough(), "python3-pyverbs": "39.0-1"}
    del installed["perftest"]
    assert record_versions.unmet(installed) == [
        "perftest: not installed, needed: 4.5 or newer",
        "python3-pyverbs: 39.0-1, needed: 44 or newer",
    ]


def test_a_package_counts_under_the_names_that_it_provides() -> None:
    listing = "librdmacm1t64\t56.1-1\tlibrdmacm1 (= 56.1-1)\nudev\t257\t\nstub\t1\tudev, perl\n"
    assert record_versions.parse_packages(listing) == {
        "librdmacm1t64": "56.1-1",
        "librdmacm1": "56.1-1",
        "udev": "257",
        "stub": "1",
        "perl": "1",
    }
