"""What the rendered Job gives to its pods, and what it withholds, as kustomize prints it."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gdrcheck.kubernetes.waits import job_deadline_s
from gdrcheck.run import Deadlines
from tests.kubernetes.rendering import (
    COMPONENTS,
    DIGEST,
    IMAGE,
    NEEDED,
    PROFILE,
    REPOSITORY,
    Rendered,
    kustomize,
    rendered,
)

MANIFESTS = REPOSITORY / "kubernetes"
# The oldest that has what the Job needs switched on, and the newest known.
VERSIONS = ("1.29", "1.37")
NAME = "app.kubernetes.io/name"
SHAPES: list[tuple[str, tuple[str, ...]]] = [
    *((overlay, components) for overlay in NEEDED for components in ((), COMPONENTS)),
    *(("rdma-shared", (component,)) for component in COMPONENTS),
]


def shaped(folder: Path, overlay: str, components: tuple[str, ...] = ()) -> Rendered:
    chosen = itertools.chain.from_iterable(("--component", name) for name in components)
    return rendered(folder, *chosen, overlay=overlay)


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: "+".join((shape[0], *shape[1])))
def shape(request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    chosen: tuple[str, tuple[str, ...]] = request.param
    return chosen


@pytest.fixture(scope="module")
def any_job(
    shape: tuple[str, tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Rendered:
    """Rendered once for each shape: nobody changes it."""
    return shaped(tmp_path_factory.mktemp("shape"), *shape)


@pytest.fixture
def job(tmp_path: Path) -> Rendered:
    return rendered(tmp_path)


def test_kubernetes_knows_every_word(any_job: Rendered) -> None:
    for document, version in itertools.product(any_job.documents.values(), VERSIONS):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_validator_refuses_a_word_that_kubernetes_does_not_know(job: Rendered) -> None:
    job.job["completionmode"] = job.job.pop("completionMode")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job.documents["Job"], VERSIONS[0], strict=True)


@pytest.mark.parametrize("name", ["base", *(f"overlays/{one}" for one in NEEDED)])
def test_each_part_is_whole_by_itself(name: str) -> None:
    for document in kustomize(MANIFESTS / name):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_every_index_runs_once_and_none_ends_the_others(any_job: Rendered) -> None:
    spec = any_job.job
    assert spec["completionMode"] == "Indexed"
    assert (spec["completions"], spec["parallelism"], spec["maxFailedIndexes"]) == (3, 3, 3)
    assert spec["backoffLimitPerIndex"] == 0
    assert any_job.pod["restartPolicy"] == "Never"
    assert not {"backoffLimit", "podFailurePolicy", "successPolicy"} & spec.keys()
    assert any_job.environment["GDRCHECK_PODS"] == "3"


def test_one_pod_a_node_over_all_namespaces(any_job: Rendered) -> None:
    (term,) = any_job.pod["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = any_job.job["template"]["metadata"]["labels"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["namespaceSelector"] == {}
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()


def test_the_pods_find_each_other_before_they_are_ready(any_job: Rendered) -> None:
    service = any_job.documents["Service"]
    labels = any_job.job["template"]["metadata"]["labels"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= labels.items()
    # The names that the program makes when it is told none: gdrcheck-<index>.gdrcheck.
    assert any_job.pod["subdomain"] == service["metadata"]["name"] == "gdrcheck"
    assert any_job.documents["Job"]["metadata"]["name"] == "gdrcheck"


def test_ports_are_those_that_the_program_is_told(tmp_path: Path) -> None:
    job = rendered(tmp_path, "--port", "19000")
    ports = {one["name"]: one["containerPort"] for one in job.container["ports"]}
    assert ports == {"channel": 19000, "job": 19001}
    served = {one["name"]: one["port"] for one in job.documents["Service"]["spec"]["ports"]}
    assert served == ports
    assert job.environment["GDRCHECK_PORT"] == "19000"
    assert job.environment["GDRCHECK_JOB_PORT"] == "19001"


def test_least_privilege(any_job: Rendered, shape: tuple[str, tuple[str, ...]]) -> None:
    overlay, components = shape
    context = any_job.container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    if overlay != "privileged":
        assert context["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
        assert context["allowPrivilegeEscalation"] is False
    # Any other user loses IPC_LOCK.
    assert any_job.pod["securityContext"]["runAsUser"] == 0
    assert any_job.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert any_job.pod["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostIPC", "serviceAccountName"} & any_job.pod.keys()
    privileged = [
        one["name"]
        for one in (*any_job.init_containers, any_job.container)
        if one["securityContext"].get("privileged")
    ]
    host_paths = [one["hostPath"]["path"] for one in any_job.pod["volumes"] if "hostPath" in one]
    expected = [("host-facts", "/proc")] if "host-facts" in components else []
    expected += [("gdrcheck", "/dev/infiniband")] if overlay == "privileged" else []
    assert privileged == [name for name, _ in expected]
    assert sorted(host_paths) == sorted(path for _, path in expected)


@pytest.mark.parametrize("name", ["overlays/privileged", "components/host-facts"])
def test_what_is_privileged_is_called_so(name: str) -> None:
    text = (MANIFESTS / name / "kustomization.yaml").read_text()
    assert text.startswith("---\n# PRIVILEGED")


def test_only_the_labelled_places_ask_for_privileges() -> None:
    asking = {
        str(file.parent.relative_to(MANIFESTS))
        for file in MANIFESTS.rglob("*.yaml")
        if "privileged: true" in file.read_text() or "hostPath:" in file.read_text()
    }
    assert asking == {"overlays/privileged", "components/host-facts"}


def test_the_network_is_the_hosts_where_rdma_needs_it(tmp_path: Path) -> None:
    for overlay in NEEDED:
        folder = tmp_path / overlay
        folder.mkdir()
        pod = shaped(folder, overlay).pod
        assert pod.get("hostNetwork", False) is (overlay != "sriov")
        # Else the host's own name server is asked, which knows no pod.
        wanted = "ClusterFirstWithHostNet" if overlay != "sriov" else "ClusterFirst"
        assert pod.get("dnsPolicy", "ClusterFirst") == wanted


def test_the_namespace_says_what_it_allows_and_why(tmp_path: Path) -> None:
    job = rendered(tmp_path, "--namespace", "checks")
    namespace = job.documents["Namespace"]["metadata"]
    assert namespace["name"] == "checks"
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "IPC_LOCK" in (MANIFESTS / "base/namespace.yaml").read_text().partition("labels:")[2]
    others = [one for kind, one in job.documents.items() if kind != "Namespace"]
    assert {one["metadata"]["namespace"] for one in others} == {"checks"}


@pytest.mark.parametrize("options", [(), ("--time-scale", "3", "--arrival-s", "1800")])
def test_deadlines_nest(options: tuple[str, ...], tmp_path: Path) -> None:
    job = rendered(tmp_path, *options)
    environment = job.environment
    time_scale = float(environment["GDRCHECK_TIME_SCALE"] or 0)
    arrival_s = float(environment["GDRCHECK_ARRIVAL_S"] or 0)
    assert (time_scale, arrival_s) == ((3, 1800) if options else (1, 600))
    program_s = job_deadline_s(Deadlines(), time_scale, arrival_s)
    # A pod may have to wait as long again for the last one, and has to pull the image before.
    assert program_s + arrival_s + 600 <= job.pod["activeDeadlineSeconds"]
    assert job.pod["activeDeadlineSeconds"] + 600 <= job.job["activeDeadlineSeconds"]
    assert job.pod["terminationGracePeriodSeconds"] >= 90
    # Without a value of the run, those of the base hold.
    (base,) = [one for one in kustomize(MANIFESTS / "base") if one["kind"] == "Job"]
    if not options:
        assert base["spec"]["activeDeadlineSeconds"] == job.job["activeDeadlineSeconds"]
    assert job.job["ttlSecondsAfterFinished"] >= 3600


def test_requests_are_limits_in_every_container(any_job: Rendered) -> None:
    for one in (*any_job.init_containers, any_job.container):
        assert one["resources"]["requests"] == one["resources"]["limits"]
        assert {"cpu", "memory"} <= one["resources"]["limits"].keys()
        # Else a kubelet whose CPU manager gives out whole cores only refuses the pod.
        assert int(one["resources"]["limits"]["cpu"]) % 2 == 0


def test_resources_are_what_profile_and_options_say(tmp_path: Path) -> None:
    job = rendered(
        tmp_path,
        *("--gpu-resource", "example.com/gpu", "--cpu", "12", "--memory", "30Gi"),
        overlay="sriov",
    )
    assert job.container["resources"]["limits"] == {
        "cpu": "12",
        "memory": "30Gi",
        "example.com/gpu": "8",
        "example.com/rail0": "1",
        "example.com/rail1": "1",
    }
    annotations = job.job["template"]["metadata"]["annotations"]
    assert annotations == {"k8s.v1.cni.cncf.io/networks": "rail0,rails/rail1@net2"}


def test_a_profile_without_gpus_takes_none(tmp_path: Path) -> None:
    text = PROFILE.replace('{count: 8, model: "NVIDIA H200*"}', "{count: 0}")
    (tmp_path / "network.yml").write_text(text)
    job = rendered(tmp_path, "--profile", tmp_path / "network.yml")
    assert job.container["resources"]["limits"] == {
        "cpu": "6",
        "memory": "8Gi",
        "rdma/rdma_shared_device_a": "1",
    }


def test_nodes_are_chosen_by_label_and_taint(tmp_path: Path) -> None:
    job = rendered(
        tmp_path,
        *("--node-selector", "pool=new", "--node-selector", "example.com/ready="),
        *("--toleration", "node.kubernetes.io/unschedulable"),
    )
    assert job.pod["nodeSelector"] == {"pool": "new", "example.com/ready": ""}
    assert job.pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    ]


def test_what_may_be_written_to_goes_with_the_pod(any_job: Rendered) -> None:
    assert any_job.volume("/tmp")["emptyDir"]["medium"] == "Memory"
    assert any_job.volume("/dev/shm")["emptyDir"]["medium"] == "Memory"
    writable = {
        one["mountPath"]
        for one in any_job.container["volumeMounts"]
        if not one.get("readOnly") and not one["mountPath"].startswith("/dev/")
    }
    assert writable == {"/tmp", "/run/gdrcheck/results"}


def test_results_go_to_a_volume_of_many_writers_if_asked(
    any_job: Rendered, shape: tuple[str, tuple[str, ...]]
) -> None:
    volume = any_job.volume("/run/gdrcheck/results")
    if "results-pvc" not in shape[1]:
        assert volume["emptyDir"] == {}
        assert "PersistentVolumeClaim" not in any_job.documents
        return
    claim = any_job.documents["PersistentVolumeClaim"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert "emptyDir" not in volume
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_host_facts_go_to_where_the_checks_read_them(tmp_path: Path) -> None:
    text = PROFILE + "expect: {os: 'Debian*', modules: [nvidia_peermem, gdrdrv]}\n"
    (tmp_path / "more.yml").write_text(text)
    job = rendered(tmp_path, "--profile", tmp_path / "more.yml", "--component", "host-facts")
    (init,) = job.init_containers
    assert init["command"] == ["/usr/bin/python3", "-m", "gdrcheck.host_collector"]
    assert init["args"] == [
        "--out=/run/gdrcheck/host",
        "--mounts-of=/host/proc/1",
        "--module=nvidia_peermem",
        "--module=gdrdrv",
    ]
    assert init["image"] == job.container["image"]
    place = "/run/gdrcheck/host"
    assert job.volume(place, init) == job.volume(place) == {"name": "host", "emptyDir": {}}
    mounts = {one["mountPath"]: one for one in job.container["volumeMounts"]}
    assert mounts[place]["readOnly"] is True


def test_the_secret_is_a_file_for_root_and_nowhere_else(job: Rendered) -> None:
    secret = (job.folder / "secret").read_text()
    assert len(bytes.fromhex(secret)) == 32
    document = job.documents["Secret"]
    assert base64.b64decode(document["data"]["secret"]).decode() == secret
    volume = job.volume("/run/gdrcheck/secret")["secret"]
    assert volume == {"secretName": document["metadata"]["name"], "defaultMode": 0o400}
    others = {kind: one for kind, one in job.documents.items() if kind != "Secret"}
    assert secret not in yaml.safe_dump(others)


def test_the_profile_is_the_same_file(job: Rendered, tmp_path: Path) -> None:
    document = job.documents["ConfigMap"]
    assert document["data"] == {"h200.yml": (tmp_path / "h200.yml").read_text()}
    volume = job.volume("/run/gdrcheck/profile")["configMap"]
    assert volume["name"] == document["metadata"]["name"]


def test_the_image_is_named_by_its_digest(any_job: Rendered) -> None:
    images = {one["image"] for one in (*any_job.init_containers, any_job.container)}
    assert images == {IMAGE}
    assert any_job.environment["GDRCHECK_IMAGE_ID"] == DIGEST


def test_a_tag_is_no_image_id(tmp_path: Path) -> None:
    job = rendered(tmp_path, "--image", "registry.example/gdrcheck:1.2")
    assert job.container["image"] == "registry.example/gdrcheck:1.2"
    assert job.environment["GDRCHECK_IMAGE_ID"] == ""


def test_all_that_is_to_be_removed_after_a_run_has_one_label(any_job: Rendered) -> None:
    assert {one["metadata"]["labels"][NAME] for one in any_job.documents.values()} == {"gdrcheck"}


def test_the_site_file_is_a_patch_that_people_may_change(job: Rendered) -> None:
    file = job.folder / "site.yaml"
    patch: dict[str, Any] = yaml.safe_load(file.read_text())
    patch["spec"]["template"]["spec"]["runtimeClassName"] = "nvidia"
    file.write_text(yaml.safe_dump(patch))
    changed = Rendered(job.folder)
    assert changed.pod["runtimeClassName"] == "nvidia"
    assert changed.container["securityContext"] == job.container["securityContext"]
