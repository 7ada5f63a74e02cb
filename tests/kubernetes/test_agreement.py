"""What the manifests tell a pod is what the program in it reads."""

from __future__ import annotations

import base64
from datetime import date
from pathlib import Path

import pytest

from gdrcheck.kubernetes.settings import IN_POD, Settings, read_settings
from tests.kubernetes.rendering import DIGEST, NEEDED, Rendered, rendered
from tests.test_ib_links import IBNETDISCOVER

FIELDS = {"NODE_NAME": "spec.nodeName", "POD_IP": "status.podIP"}


def settings_in_a_pod(job: Rendered, root: Path, index: int) -> Settings:
    """What the program of pod ``index`` is told, its mounts being below ``root``."""
    told = {one["name"]: one for one in job.container["env"]}
    for name, field in FIELDS.items():
        assert told[name]["valueFrom"]["fieldRef"]["fieldPath"] == field
    environment = {name: one.get("value", "") for name, one in told.items()}
    environment |= {
        "NODE_NAME": f"gpu-{index}.example",
        "POD_IP": f"192.0.2.{index}",
        # By the Job's controller.
        "JOB_COMPLETION_INDEX": str(index),
    }
    for mount in job.container["volumeMounts"]:
        path = Path(mount["mountPath"])
        if path.is_relative_to(IN_POD):
            (root / path.relative_to(IN_POD)).mkdir(parents=True)
    for name, text in job.documents["ConfigMap"]["data"].items():
        (root / "profile" / name).write_text(text)
    secret = base64.b64decode(job.documents["Secret"]["data"]["secret"])
    (root / "secret" / "secret").write_bytes(secret)
    return read_settings(environment, root, today=date(2026, 11, 30))


@pytest.mark.parametrize("overlay", NEEDED)
def test_the_program_reads_what_was_rendered(overlay: str, tmp_path: Path) -> None:
    (tmp_path / "links.txt").write_text(IBNETDISCOVER)
    job = rendered(
        tmp_path,
        *("--rounds", "all", "--time-scale", "2.5", "--arrival-s", "90", "--port", "20000"),
        *("--ib-links", tmp_path / "links.txt"),
        overlay=overlay,
    )
    settings = settings_in_a_pod(job, tmp_path / "pod", 2)
    assert (settings.index, settings.pods, settings.node) == (2, 3, "gpu-2.example")
    assert (settings.port, settings.job_port) == (20000, 20001)
    assert settings.leader_host == "gdrcheck-0.gdrcheck"
    assert settings.profile_name == "h200"
    assert settings.profile.gpus is not None
    assert settings.rounds == "all"
    assert (settings.time_scale, settings.arrival_s) == (2.5, 90)
    assert settings.image_id == DIGEST
    assert settings.secret.hex() == (job.folder / "secret").read_text()
    assert settings.ib_links == IBNETDISCOVER.encode()


def test_the_command_is_that_of_a_pod(tmp_path: Path) -> None:
    job = rendered(tmp_path)
    assert "command" not in job.container
    assert job.container["args"] == ["kubernetes", "pod"]
