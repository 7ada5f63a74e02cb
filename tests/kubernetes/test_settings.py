"""What a pod is told, and that everything wrong about it is said at once."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gdrcheck.kubernetes.settings import Settings, read_settings
from gdrcheck.outcome import InputError
from tests.kubernetes.pods import PROFILE, SECRET

TODAY = date(2026, 1, 2)
ENVIRONMENT = {
    "JOB_COMPLETION_INDEX": "1",
    "NODE_NAME": "gpu-07.example",
    "POD_IP": "10.1.2.3",
    "GDRCHECK_PODS": "4",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The mounts of a pod, in order."""
    for name in ("profile", "secret", "results"):
        (tmp_path / name).mkdir()
    # As the kubelet mounts a ConfigMap.
    (tmp_path / "profile/..data").mkdir()
    (tmp_path / "profile/h200_ib.yml").write_text(PROFILE)
    (tmp_path / "secret/secret").write_text(SECRET + "\n")
    return tmp_path


def read(root: Path, **changes: str) -> Settings:
    return read_settings(ENVIRONMENT | changes, root, today=TODAY)


def problems(root: Path, **changes: str) -> str:
    with pytest.raises(InputError) as caught:
        read(root, **changes)
    return "\n".join(caught.value.problems)


def test_what_is_not_said_is_by_default(root: Path) -> None:
    found = read(root, GDRCHECK_LEADER="", GDRCHECK_DEADLINES="")
    assert found.me == "gdrcheck-1"
    assert not found.leads
    assert found.leader_host == "gdrcheck-0.gdrcheck"
    assert (found.port, found.job_port) == (18600, 18601)
    assert (found.rounds, found.time_scale, found.arrival_s) == (4, 1, 600)
    assert found.profile_name == "h200_ib"
    assert found.profile.rails is not None
    assert found.secret == bytes.fromhex(SECRET)
    assert (found.lock, found.ib_links) == (None, None)


def test_what_is_said_counts(root: Path) -> None:
    (root / "profile/ib_links.txt").write_bytes(b"links")
    found = read(
        root,
        GDRCHECK_JOB="check",
        GDRCHECK_SERVICE="pods",
        GDRCHECK_PORT="20000",
        GDRCHECK_JOB_PORT="19000",
        GDRCHECK_ROUNDS="all",
        GDRCHECK_TIME_SCALE="3",
        GDRCHECK_DEADLINES='{"phase_s": 900}',
        GDRCHECK_ARRIVAL_S="30",
        GDRCHECK_LOCK="/run/lock",
        GDRCHECK_IMAGE_ID="sha256:1",
    )
    assert found.leader_host == "check-0.pods"
    assert (found.port, found.job_port) == (20000, 19000)
    assert found.rounds == "all"
    assert found.scaled.phase_s == 2700
    assert found.scaled.check_s == 180
    assert (found.waits.delivery_s, found.waits.lost_s) == (900, 60)
    assert found.arrival_s == 30
    assert found.lock == Path("/run/lock")
    assert found.ib_links == b"links"
    assert found.image_id == "sha256:1"


def test_the_secret_is_not_shown(root: Path) -> None:
    assert repr(bytes.fromhex(SECRET)) not in repr(read(root))


def test_everything_wrong_is_said_at_once(root: Path) -> None:
    (root / "profile/h200_ib.yml").write_text("gpus: {count: x}\nrail: 1\n")
    (root / "secret/secret").write_text("short")
    (root / "results").rmdir()
    text = problems(
        root,
        JOB_COMPLETION_INDEX="",
        NODE_NAME="a b",
        GDRCHECK_PODS="none",
        GDRCHECK_ROUNDS="0",
        GDRCHECK_DEADLINES='{"check_s": 1, "phse_s": 1}',
    )
    for part in (
        "JOB_COMPLETION_INDEX",
        "NODE_NAME",
        "GDRCHECK_PODS",
        "GDRCHECK_ROUNDS: '0'",
        "GDRCHECK_DEADLINES: phse_s",
        "h200_ib.yml:1: gpus.count",
        "h200_ib.yml:2: rail",
        "64 hex digits",
        "results: no such folder",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"JOB_COMPLETION_INDEX": "4"}, "is no index of GDRCHECK_PODS 4"),
        ({"NODE_NAME": "fleet"}, "NODE_NAME fleet is reserved"),
        ({"GDRCHECK_JOB": "A_b"}, "GDRCHECK_JOB"),
        ({"GDRCHECK_PODS": "0"}, "GDRCHECK_PODS"),
        ({"GDRCHECK_DEADLINES": "{"}, "no JSON"),
        ({"GDRCHECK_DEADLINES": '{"check_s": 400}'}, "deadlines must nest"),
        ({"GDRCHECK_PORT": "70000"}, "GDRCHECK_PORT"),
    ],
)
def test_one_thing_is_wrong(root: Path, changes: dict[str, str], said: str) -> None:
    assert said in problems(root, **changes)


def test_one_profile_is_expected(root: Path) -> None:
    (root / "profile/other.yml").write_text(PROFILE)
    assert "found h200_ib.yml, other.yml" in problems(root)
    (root / "profile/other.yml").unlink()
    (root / "profile/h200_ib.yml").unlink()
    assert "found none" in problems(root)


def test_a_secret_that_is_not_there_is_said(root: Path) -> None:
    (root / "secret/secret").unlink()
    assert "secret/secret: " in problems(root)
