"""``gdrcheck prepare``: a folder for the run when all is right, and nothing at all when not."""

from __future__ import annotations

import json
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gdrcheck import run
from gdrcheck.outcome import InputError
from gdrcheck.pairing import plan
from gdrcheck.prepare import Prepared, parse_inventory, prepare
from gdrcheck.results.folder import IB_LINKS_FILE
from tests.test_ib_links import IBNETDISCOVER

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def request_data(tmp_path: Path) -> dict[str, Any]:
    profiles = tmp_path / "inventory" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "lab.yml").write_text(
        "gpus: {count: 0}\nrails: {count: 2, nics: [{name: 'rxe*'}]}\n"
    )
    (tmp_path / "inventory" / "hosts.yml").write_text("all: {}\n")
    return {
        "inventory_sources": [str(tmp_path / "inventory" / "hosts.yml")],
        "playbook_dir": str(tmp_path),
        "groups": {"all": ["node1", "node2"], "gpu": ["node1", "node2"]},
        "play_hosts": ["node1", "node2"],
        "limit": None,
        "hostvars": {
            name: {"ansible_host": f"{name}.example", "gdrcheck_profile": "lab"}
            for name in ("node1", "node2")
        },
        "check_mode": False,
    }


def prepared(data: dict[str, Any], folder: Path, results: Path | None = None) -> Prepared:
    return prepare(parse_inventory(json.dumps(data).encode()), folder, results, NOW)


def test_run_folder_holds_the_document_and_a_secret(
    request_data: dict[str, Any], tmp_path: Path
) -> None:
    answer = prepared(request_data, tmp_path)
    folder = Path(answer.run_dir)
    assert folder == tmp_path / "results" / answer.run_id
    assert answer.run_id.startswith("20261130T120000Z-")
    assert sorted(file.name for file in folder.iterdir()) == ["run.json", "secret"]
    spec = run.load(folder / "run.json")
    assert [node.address for node in spec.nodes] == ["node1.example", "node2.example"]
    assert spec.created == NOW
    assert spec.limited_to is None


def of_many_nodes(request_data: dict[str, Any], tmp_path: Path, phase_s: int) -> dict[str, Any]:
    """``request_data`` of 300 nodes that all meet each other."""
    names = [f"node{number}" for number in range(300)]
    (tmp_path / "inventory/profiles/lab.yml").write_text(
        "gpus: {count: 8, model: NVIDIA H200}\nrails: {count: 8, nics: [{name: 'mlx5_*'}]}\n"
    )
    own = {
        "gdrcheck_profile": "lab",
        "gdrcheck_rounds": "all",
        "gdrcheck_deadlines": {"phase_s": phase_s},
    }
    return request_data | {
        "groups": {"all": names, "gpu": names},
        "play_hosts": names,
        "hostvars": dict.fromkeys(names, own),
    }


def test_rounds_beyond_the_deadline_are_refused(
    request_data: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        prepared(of_many_nodes(request_data, tmp_path, 1800), tmp_path)
    (time,) = refused.value.problems
    assert re.match(r"gdrcheck_rounds: all: they are planned to take \d+ s, and the deadline", time)
    assert not (tmp_path / "results").exists()


def test_rounds_that_fit_as_records_of_pairs_are_not_refused(
    request_data: dict[str, Any], tmp_path: Path
) -> None:
    answer = prepared(of_many_nodes(request_data, tmp_path, 360_000), tmp_path)
    spec = run.load(Path(answer.run_dir) / "run.json")
    assert plan.is_wide(spec)
    assert not plan.is_wide(spec.model_copy(update={"rounds": 4}))
    assert answer.pairs_s > 1800


def test_rounds_beyond_what_a_merge_reads_are_refused(
    request_data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "BYTES_OF_WIDE_CASE", 900)
    request_data = of_many_nodes(request_data, tmp_path, 360_000)
    with pytest.raises(InputError) as refused:
        prepared(request_data, tmp_path)
    (size,) = refused.value.problems
    assert size.startswith("gdrcheck_rounds: all: the results of node0, which would measure 299")
    most = int(size.split(" MiB of a node; set ")[1].split()[0])
    request_data["hostvars"]["node0"]["gdrcheck_rounds"] = most
    assert prepared(request_data, tmp_path).pairs_s > 1800


def test_secret_is_random_and_for_its_owner_only(
    request_data: dict[str, Any], tmp_path: Path
) -> None:
    secrets = [Path(prepared(request_data, tmp_path).run_dir, "secret") for _ in range(2)]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    first, second = (path.read_text() for path in secrets)
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first != second


def test_latest_points_at_the_newest_run(request_data: dict[str, Any], tmp_path: Path) -> None:
    for _ in range(2):
        answer = prepared(request_data, tmp_path)
        assert (tmp_path / "results" / "latest").readlink() == Path(answer.run_id)


def test_check_mode_leaves_latest_alone(request_data: dict[str, Any], tmp_path: Path) -> None:
    real = prepared(request_data, tmp_path)
    answer = prepared(request_data | {"check_mode": True}, tmp_path)
    assert answer.check_mode
    assert Path(answer.run_dir, "run.json").exists()
    assert (tmp_path / "results" / "latest").readlink() == Path(real.run_id)


def test_answer_holds_every_option_with_its_default(
    request_data: dict[str, Any], tmp_path: Path
) -> None:
    request_data["hostvars"]["node2"]["gdrcheck_allow_gpu_processes"] = True
    for own in request_data["hostvars"].values():
        own["gdrcheck_time_scale"] = "3"
    answer = prepared(request_data, tmp_path)
    assert answer.nodes == ("node1", "node2")
    assert answer.options["time_scale"] == 3
    assert answer.options["engine"] == "auto"
    assert answer.options["deadlines"] == run.Deadlines().model_dump()
    assert answer.node_options["node2"].model_dump() == {
        "address": "node2.example",
        "port": 18600,
        "profile": "lab",
        "gpus": 0,
        "rails": 2,
        "allow_gpu_processes": True,
        "partners": ("node1",),
    }
    assert not answer.node_options["node1"].allow_gpu_processes
    assert answer.overall_s > 2 * 3 * run.Deadlines().phase_s


def test_archive_is_given_as_an_absolute_path(request_data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "image.tar").touch()
    for own in request_data["hostvars"].values():
        own |= {"gdrcheck_image_source": "archive", "gdrcheck_image_archive": "image.tar"}
    assert prepared(request_data, tmp_path).options["image_archive"] == str(tmp_path / "image.tar")


def test_limit_is_recorded(request_data: dict[str, Any], tmp_path: Path) -> None:
    answer = prepared(request_data | {"limit": "node2", "play_hosts": ["node2"]}, tmp_path)
    assert answer.nodes == ("node2",)
    assert run.load(Path(answer.run_dir, "run.json")).limited_to == "node2"


@pytest.mark.parametrize("results", [Path("elsewhere/all"), None])
def test_results_folder_by_option_or_variable(
    request_data: dict[str, Any], tmp_path: Path, results: Path | None
) -> None:
    for own in request_data["hostvars"].values():
        own["gdrcheck_results_dir"] = "by-variable"
    expected = tmp_path / (results or "by-variable")
    assert Path(prepared(request_data, tmp_path, results).run_dir).parent == expected


def test_wrong_input_writes_nothing(request_data: dict[str, Any], tmp_path: Path) -> None:
    request_data["hostvars"]["node1"]["gdrcheck_prot"] = 1
    with pytest.raises(InputError, match="gdrcheck_prot"):
        prepared(request_data, tmp_path)
    assert not (tmp_path / "results").exists()


def test_latest_that_is_no_link_is_left_alone(request_data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "results" / "latest").mkdir(parents=True)
    with pytest.raises(InputError, match="latest: is no symbolic link"):
        prepared(request_data, tmp_path)
    assert [file.name for file in (tmp_path / "results").iterdir()] == ["latest"]


def test_results_folder_that_cannot_be_made_is_one_problem(
    request_data: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(InputError, match="results: cannot be written: File exists"):
        prepared(request_data, tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"groups": {}}'])
def test_standard_input_that_is_no_inventory_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="standard input"):
        parse_inventory(content)


def test_a_list_of_links_goes_with_the_run(request_data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "ib.txt").write_text(IBNETDISCOVER)
    for own in request_data["hostvars"].values():
        own["gdrcheck_ib_links"] = "ib.txt"
    folder = Path(prepared(request_data, tmp_path).run_dir)
    assert (folder / IB_LINKS_FILE).read_text() == IBNETDISCOVER
