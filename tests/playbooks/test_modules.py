"""The modules by themselves, and the filters that judge over several nodes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from ansible.errors import AnsibleFilterError

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.results.states import SeenStates

from .conftest import FAKE_BIN, REPOSITORY, free_port

RUN_ID = "20261130T101500Z-0a1b2c"
OTHER_ID = "20261129T101500Z-0a1b2c"
Load = Callable[[str], ModuleType]
Options = dict[str, object]


@pytest.fixture
def engine_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The FAKE engine's state; the fake is found as podman."""
    state = tmp_path / "engine"
    state.mkdir()
    monkeypatch.setenv("FAKE_ENGINE", str(state))
    monkeypatch.setenv("PATH", f"{FAKE_BIN}:{os.environ['PATH']}")
    return state


@pytest.fixture
def options(tmp_path: Path, engine_state: Path) -> Options:  # noqa: ARG001
    """Options of gdrcheck_preflight for a node on which everything is in order."""
    devices = tmp_path / "root/dev/infiniband"
    devices.mkdir(parents=True)
    for name in ("uverbs0", "rdma_cm"):
        (devices / name).touch()
    return {
        "run_id": RUN_ID, "node": "node1", "address": "127.0.0.1", "port": free_port("127.0.0.1"),
        "engine": "podman", "image": "localhost/gdrcheck:dev", "image_id": "",
        "image_source": "present", "free_bytes": 1, "state_dir": str(tmp_path / "state"),
        "gpus_promised": 0, "allow_gpu_processes": False, "listener_s": 60,
        "root": str(tmp_path / "root"),
    }  # fmt: skip


@pytest.fixture
def shared(module: Load) -> ModuleType:
    """What the modules share."""
    module("gdrcheck_clean")
    return sys.modules["ansible.module_utils.gdrcheck"]


@pytest.fixture
def preflight(
    module: Load, shared: ModuleType, options: Options
) -> Iterator[Callable[..., tuple[set[str], ModuleType]]]:
    """Runs the preflight with changed options; its listener is ended afterwards."""
    loaded = module("gdrcheck_preflight")

    def run(check_mode: bool = False, **changes: object) -> tuple[set[str], ModuleType]:
        made = loaded.Preflight(options | changes, check_mode)
        made.examine()
        return {one["code"] for one in made.findings}, made

    yield run
    shared.stop_listener(shared.RunDirectory(options["state_dir"], RUN_ID))


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of that name first in PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


class TestPreflight:
    def test_good_node_is_ready_and_listens(
        self, preflight, module: Load, options: Options
    ) -> None:
        codes, made = preflight()
        assert codes == set()
        assert made.result["devices"] == ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"]
        assert made.result["image_id"] == f"sha256:{'a' * 64}"
        target = {"node": "node1", "address": "127.0.0.1", "port": options["port"]}
        reach = module("gdrcheck_reach").reach
        assert reach(RUN_ID, target, 5) == ""
        assert "node1 answers there" in reach(RUN_ID, {**target, "node": "node2"}, 5)
        assert "node1 answers there" in reach(OTHER_ID, target, 5)

    def test_check_mode_leaves_nothing(self, preflight, options: Options) -> None:
        codes, _ = preflight(check_mode=True)
        assert codes == set()
        assert not Path(str(options["state_dir"])).exists()

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"engine": "docker"}, "RUN-NO-ENGINE"),
            ({"root": "/nonexistent"}, "RUN-NO-DEVICES"),
            ({"root": "/nonexistent"}, "RUN-NO-RDMACM"),
            ({"gpus_promised": 8}, "RUN-NO-TOOLKIT"),
            ({"free_bytes": 1 << 60}, "RUN-DISK-FULL"),
            ({"address": "192.0.2.77"}, "RUN-ADDRESS-UNREACHABLE"),
            ({"address": "no-such-name.invalid"}, "RUN-ADDRESS-UNREACHABLE"),
            ({"address": "localhost"}, "RUN-ADDRESS-UNREACHABLE"),
        ],
    )
    def test_names_what_is_wrong(
        self, preflight, changes: Options, code: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if changes.get("engine") == "docker":
            monkeypatch.setenv("PATH", str(FAKE_BIN))
            monkeypatch.setattr("shutil.which", lambda *_, **__: None)
        codes, _ = preflight(**changes)
        assert code in codes

    def test_image_that_is_absent(self, preflight, engine_state: Path) -> None:
        (engine_state / "no-image").touch()
        assert preflight()[0] == {"RUN-NO-IMAGE"}
        assert preflight(image_source="registry")[0] == set()

    def test_port_that_is_taken(self, preflight, options: Options) -> None:
        with socket.create_server(("127.0.0.1", int(str(options["port"])))):
            codes, _ = preflight()
        assert codes == {"RUN-ADDRESS-UNREACHABLE"}

    def test_engine_that_does_not_answer(self, preflight, engine_state: Path) -> None:
        (engine_state / "refuse-ps").touch()
        assert preflight()[0] == {"RUN-NO-ENGINE"}

    def test_engine_that_is_too_old(
        self, preflight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = '[ "$1" = --version ] && echo "podman version 3.4.4"; exit 0'
        tool(tmp_path / "bin", "podman", script, monkeypatch)
        assert preflight()[0] == {"RUN-NO-ENGINE"}

    def test_cdi_of_another_kind_is_not_enough(self, preflight, options: Options) -> None:
        cdi = Path(str(options["root"]), "etc/cdi")
        cdi.mkdir(parents=True)
        (cdi / "other.yaml").write_text("kind: example.com/other\n")
        assert preflight(gpus_promised=1)[0] == {"RUN-NO-TOOLKIT"}
        (cdi / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
        assert preflight(gpus_promised=1)[0] == set()

    def test_gpu_processes_refuse_the_node_unless_allowed(
        self, preflight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tool(tmp_path / "bin", "nvidia-smi", "echo 4711, train.py", monkeypatch)
        codes, made = preflight()
        assert codes == {"RUN-GPU-BUSY"}
        assert "train.py" in made.findings[0]["observed"]
        assert preflight(allow_gpu_processes=True)[0] == set()

    def test_gpus_that_cannot_be_asked_refuse_a_node_that_promises_them(
        self, preflight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tool(tmp_path / "bin", "nvidia-smi", "echo broken >&2; exit 9", monkeypatch)
        assert preflight()[0] == set()
        assert "RUN-GPU-BUSY" in preflight(gpus_promised=1)[0]

    def test_leftovers_of_dead_runs_go_and_those_of_living_ones_stay(
        self, preflight, shared: ModuleType, options: Options
    ) -> None:
        dead = shared.RunDirectory(options["state_dir"], OTHER_ID)
        dead.make(-1)
        fresh = shared.RunDirectory(options["state_dir"], "20261130T101400Z-ffffff")
        fresh.make(600)
        _, made = preflight()
        assert made.result["removed"] == [OTHER_ID]
        assert not os.path.exists(dead.path)
        assert os.path.exists(fresh.path)

    def test_its_codes_are_in_the_catalogue(self) -> None:
        text = (REPOSITORY / "playbooks/library/gdrcheck_preflight.py").read_text()
        codes = set(re.findall(r'"(RUN-[A-Z-]+)"', text))
        assert len(codes) >= 8
        assert codes <= ENTRIES_BY_CODE.keys()


class TestListener:
    def test_only_the_process_that_was_started_is_ended(
        self, shared: ModuleType, tmp_path: Path
    ) -> None:
        directory = shared.RunDirectory(str(tmp_path), RUN_ID)
        directory.make(60)
        bystander = os.fork()
        if bystander == 0:
            time.sleep(60)
            os._exit(0)
        directory.remember("listener", {"pid": bystander, "started_ticks": 1})
        assert not shared.stop_listener(directory)
        os.kill(bystander, 0)
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)

    def test_silence_is_not_an_answer(self, module: Load) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            target = {"node": "n", "address": "127.0.0.1", "port": server.getsockname()[1]}
            assert "no answer within" in module("gdrcheck_reach").reach(RUN_ID, target, 0.5)

    def test_garbage_is_not_an_answer(self, module: Load) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(b"SSH-2.0-x\r\n")

            threading.Thread(target=serve, daemon=True).start()
            target = {"node": "n", "address": "127.0.0.1", "port": server.getsockname()[1]}
            assert "something else" in module("gdrcheck_reach").reach(RUN_ID, target, 5)


class TestWait:
    def test_container_past_its_deadline_is_called_timed_out(
        self, module: Load, shared: ModuleType, engine_state: Path, tmp_path: Path
    ) -> None:
        (engine_state / "container").write_text("#!/bin/sh\nexec sleep 60\n")
        (engine_state / "container").chmod(0o755)
        engine = shared.Engine.find("podman")
        name = f"gdrcheck-{RUN_ID}"
        assert engine.run("run", f"--name={name}", "image").ok
        directory = shared.RunDirectory(str(tmp_path / "state"), RUN_ID)
        directory.make(60)
        directory.remember("container", {"started_boottime_s": -1000, "deadline_s": 1})
        waited = module("gdrcheck_wait").wait(engine, directory, 0)
        assert waited["timed_out"]
        assert waited["exit_code"] is None
        assert engine.remove(RUN_ID).ok
        assert engine.containers() == {}

    @pytest.mark.usefixtures("engine_state")
    def test_container_that_is_gone_is_said_to_be(
        self, module: Load, shared: ModuleType, tmp_path: Path
    ) -> None:
        directory = shared.RunDirectory(str(tmp_path / "state"), RUN_ID)
        directory.make(60)
        directory.remember("container", {"started_boottime_s": 0, "deadline_s": 10**6})
        waited = module("gdrcheck_wait").wait(shared.Engine.find("podman"), directory, 0)
        assert "the container is gone" in waited["problem"]

    def test_packs_plain_files_only(self, module: Load, shared: ModuleType, tmp_path: Path) -> None:
        directory = shared.RunDirectory(str(tmp_path), RUN_ID)
        directory.make(60)
        Path(directory.at("out", "facts.json")).write_text("{}")
        Path(directory.at("out", "link")).symlink_to("/etc/passwd")
        with tarfile.open(module("gdrcheck_wait").pack(directory)) as archive:
            assert archive.getnames() == ["facts.json"]


def judged(reached: dict[str, dict[str, str]], filters: ModuleType) -> dict[str, str]:
    """The states of nodes after each found this at the others' addresses."""
    hostvars = {
        name: {"gdrcheck_preflight": {"findings": []}, "gdrcheck_reach": {"reached": found}}
        for name, found in reached.items()
    }
    nodes = filters.Nodes(plan(*reached), hostvars)
    return {name: nodes.ready_state(name)["state"] for name in reached}


def plan(*names: str, partners: tuple[str, ...] = ()) -> dict[str, object]:
    """What the playbook keeps of ``gdrcheck prepare``."""
    options = {"address": "192.0.2.1", "port": 18600, "partners": partners}
    return {"nodes": names, "check_mode": False, "node_options": dict.fromkeys(names, options)}


class TestReachJudgement:
    def test_all_well(self, filters: ModuleType) -> None:
        found = judged({"a": {"b": ""}, "b": {"a": ""}}, filters)
        assert found == {"a": "ok", "b": "ok"}

    def test_node_behind_a_firewall_is_refused_alone(self, filters: ModuleType) -> None:
        reached = {
            "a": {"b": "refused", "c": ""},
            "b": {"a": "", "c": ""},
            "c": {"a": "", "b": "no"},
        }
        assert judged(reached, filters) == {"a": "ok", "b": "refused", "c": "ok"}

    def test_node_that_reaches_nobody_is_refused_alone(self, filters: ModuleType) -> None:
        reached = {"a": {"b": "no", "c": "no"}, "b": {"a": "", "c": ""}, "c": {"a": "", "b": ""}}
        assert judged(reached, filters) == {"a": "refused", "b": "ok", "c": "ok"}

    def test_two_nodes_name_the_address_that_was_not_reached(self, filters: ModuleType) -> None:
        reached = {"a": {"b": "timed out"}, "b": {"a": ""}}
        assert judged(reached, filters) == {"a": "ok", "b": "refused"}

    def test_one_bad_way_between_good_nodes_is_left_to_the_run(self, filters: ModuleType) -> None:
        reached = {"a": {"b": "no", "c": ""}, "b": {"a": "", "c": ""}, "c": {"a": "", "b": ""}}
        assert set(judged(reached, filters).values()) == {"ok"}

    def test_node_that_failed_its_own_preflight_is_not_tried(self, filters: ModuleType) -> None:
        refusal = {"code": "RUN-NO-ENGINE", "observed": "none", "expected": "one"}
        hostvars = {
            "a": {"gdrcheck_preflight": {"findings": []}},
            "b": {"gdrcheck_preflight": {"findings": [refusal]}},
            "c": {"gdrcheck_preflight": {"unreachable": True, "msg": "timed out"}},
            "d": {"gdrcheck_preflight": {"findings": []}},
        }
        found = filters.targets(plan("a", "b", "c", "d"), hostvars, "a")
        assert [one["node"] for one in found] == ["d"]

    def test_many_nodes_reach_for_their_partners_and_the_first(self, filters: ModuleType) -> None:
        names = [f"n{number}" for number in range(40)]
        hostvars = {name: {"gdrcheck_preflight": {"findings": []}} for name in names}
        found = filters.targets(plan(*names, partners=("n7", "n9")), hostvars, "n5")
        assert [one["node"] for one in found] == ["n0", "n7", "n9"]


class TestStates:
    GOOD: ClassVar = {
        "gdrcheck_preflight": {"findings": []},
        "gdrcheck_start": {"container_id": "f"},
        "gdrcheck_wait": {"timed_out": False, "exit_code": 0, "problem": ""},
        "gdrcheck_fetch": {"dest": "x"},
    }

    @pytest.mark.parametrize(
        ("changes", "state"),
        [
            ({}, "ok"),
            ({"gdrcheck_preflight": {"unreachable": True, "msg": "m"}}, "unreachable"),
            ({"gdrcheck_preflight": {"failed": True, "msg": "Missing sudo password"}}, "refused"),
            ({"gdrcheck_preflight": {}}, "no result"),
            ({"gdrcheck_deploy": {"failed": True, "msg": "m"}}, "refused"),
            ({"gdrcheck_archive": {"failed": True, "msg": "m"}}, "refused"),
            ({"gdrcheck_start": {"failed": True, "msg": "m"}}, "start failed"),
            ({"gdrcheck_start": {"unreachable": True, "msg": "m"}}, "unreachable"),
            ({"gdrcheck_start": {"skipped": True}}, "start failed"),
            ({"gdrcheck_wait": {"unreachable": True, "msg": "m"}}, "unreachable"),
            ({"gdrcheck_wait": {"timed_out": True, "exit_code": None, "problem": "p"}},
             "timed out"),
            ({"gdrcheck_wait": {"timed_out": False, "exit_code": 139, "problem": ""}}, "no result"),
            ({"gdrcheck_wait": {"timed_out": False, "exit_code": None, "problem": "gone"}},
             "no result"),
            ({"gdrcheck_wait": {"timed_out": False, "exit_code": 2, "problem": ""}}, "ok"),
            ({"gdrcheck_fetch": {"failed": True, "msg": "m"}}, "no result"),
            ({"gdrcheck_fetch": {}}, "no result"),
        ],
    )  # fmt: skip
    def test_of_a_node(self, filters: ModuleType, changes: Options, state: str) -> None:
        found = filters.states(plan("a"), {"a": self.GOOD | changes}, {})
        assert found["a"]["state"] == state
        assert SeenStates.model_validate_json(json.dumps({"nodes": found}))
        assert state == "ok" or found["a"]["reason"]

    def test_damaged_archive_is_no_result(self, filters: ModuleType) -> None:
        found = filters.states(plan("a"), {"a": self.GOOD}, {"a": "not a gzip file"})
        assert found["a"] == {"state": "no result", "reason": "not a gzip file", "findings": []}


class TestTroubles:
    def test_only_bad_nodes_are_named(self, filters: ModuleType) -> None:
        nodes = {
            "good": {"state": "ok", "reason": "", "troubles": []},
            "waiting": {"state": "ok", "reason": "", "troubles": ["blocked: pair: by bad"]},
            "bad": {"state": "ok", "reason": "", "troubles": ["failed: port_active[bad]: down"]},
            "gone": {"state": "unreachable", "reason": "timed out",
                     "troubles": ["error: x: no result: unreachable: timed out"]},
        }  # fmt: skip
        found = filters.troubles({"check_mode": False, "nodes": nodes})
        assert found == {
            "bad": "failed: port_active[bad]: down",
            "gone": "unreachable: timed out",
        }


def image_archive(path: Path, members: dict[str, object]) -> str:
    """An archive with these JSON files."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            raw = json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return str(path)


class TestArchiveId:
    DIGEST = "b" * 64

    def test_of_both_forms_of_a_docker_archive(self, filters: ModuleType, tmp_path: Path) -> None:
        for config in (f"{self.DIGEST}.json", f"blobs/sha256/{self.DIGEST}"):
            path = image_archive(tmp_path / "a.tar", {"manifest.json": [{"Config": config}]})
            assert filters.archive_id(path) == f"sha256:{self.DIGEST}"

    def test_of_an_oci_archive(self, filters: ModuleType, tmp_path: Path) -> None:
        path = image_archive(tmp_path / "a.tar", {
            "index.json": {"manifests": [{"digest": "sha256:cc"}]},
            "blobs/sha256/cc": {"config": {"digest": f"sha256:{self.DIGEST}"}},
        })  # fmt: skip
        assert filters.archive_id(path) == f"sha256:{self.DIGEST}"

    def test_of_anything_else_is_an_error(self, filters: ModuleType, tmp_path: Path) -> None:
        path = image_archive(tmp_path / "a.tar", {"other.json": {}})
        with pytest.raises(AnsibleFilterError, match="is no image archive"):
            filters.archive_id(path)
