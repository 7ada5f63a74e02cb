"""The files of a rendered Job that are this run's: what goes into the copied manifests."""

from __future__ import annotations

import re
from typing import Any

import yaml

from gdrcheck.kubernetes.deadlines import JobDeadlines
from gdrcheck.kubernetes.render_request import Request
from gdrcheck.results.folder import IB_LINKS_FILE

MANIFESTS = "kubernetes"
PROFILE_FOLDER = "profile"
SECRET_FILE = "secret"
VALUES_FILE = "values.yaml"
SITE_FILE = "site.yaml"
KUSTOMIZATION_FILE = "kustomization.yaml"
NAME = {"app.kubernetes.io/name": "gdrcheck"}
# Text that is text in every version of YAML, or which PyYAML knows not to be, as no and null.
_WORD = re.compile(r"[A-Za-z].+")
NVIDIA_TAINT = "nvidia.com/gpu"
_KUSTOMIZATION_HEAD = """\
# Made by gdrcheck kubernetes render, for one run: the secret in this folder is that run's.
# kubectl apply -k on this folder starts it. See docs/kubernetes.md.
"""
_VALUES_HEAD = """\
# The numbers of this run. They belong together, so render anew rather than change one: nodes is how
# many pods there are and wait for each other, and the deadlines nest.
"""
_SITE_HEAD = """\
# YOURS: what depends on your cluster. Resource names are what `kubectl describe node` lists as
# Allocatable; requests and limits must be the same. Anything else of the pods can be set here too:
# this is a patch of the Job, as kustomize takes them.
"""


def texts(request: Request, deadlines: JobDeadlines) -> dict[str, str]:
    """The text of each file by its name."""
    return {
        KUSTOMIZATION_FILE: _KUSTOMIZATION_HEAD + _yaml(_kustomization(request)),
        VALUES_FILE: _VALUES_HEAD + _yaml(_values(request, deadlines)),
        SITE_FILE: _SITE_HEAD + _yaml(_site(request)),
    }


def _yaml(data: Any) -> str:
    return "---\n" + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Quotes each text that YAML of some version takes for something else, as 1e3, 0o17 and y."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _WORD.fullmatch(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def _kustomization(request: Request) -> dict[str, Any]:
    image = request.image
    version = {"digest": image.digest} if image.digest else {"newTag": image.tag}
    files = [f"{PROFILE_FOLDER}/{request.profile_file.name}"]
    if request.ib_links is not None:
        files.append(f"{PROFILE_FOLDER}/{IB_LINKS_FILE}")
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": request.namespace,
        "resources": [f"{MANIFESTS}/overlays/{request.overlay}", VALUES_FILE],
        "components": [f"{MANIFESTS}/components/{name}" for name in request.components],
        "labels": [{"pairs": NAME, "includeSelectors": False}],
        "images": [{"name": "gdrcheck", "newName": image.name, **version}],
        "configMapGenerator": [{"name": "gdrcheck-profile", "files": files}],
        "secretGenerator": [{"name": "gdrcheck-secret", "files": [SECRET_FILE]}],
        "patches": [{"path": SITE_FILE}],
        "replacements": [{"path": f"{MANIFESTS}/base/replacements.yaml"}],
    }


def _values(request: Request, deadlines: JobDeadlines) -> dict[str, Any]:
    values = {
        "nodes": request.nodes,
        "rounds": request.rounds,
        "time_scale": f"{request.time_scale:g}",
        "arrival_s": f"{request.arrival_s:g}",
        "pod_deadline_s": deadlines.pod_s,
        "job_deadline_s": deadlines.job_s,
        "port": request.port,
        "job_port": request.port + 1,
        "image_id": request.image.digest,
        "namespace": request.namespace,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "gdrcheck-values",
            # Read by kustomize, and left out of what it prints.
            "annotations": {"config.kubernetes.io/local-config": "true"},
        },
        "data": {key: str(value) for key, value in values.items()},
    }


def _site(request: Request) -> dict[str, Any]:
    pod: dict[str, Any] = {}
    if request.node_selector:
        pod["nodeSelector"] = request.node_selector
    pod["tolerations"] = [
        {"key": key, "operator": "Exists"}
        for key in dict.fromkeys((NVIDIA_TAINT, *request.tolerations))
    ]
    if arguments := _collector_arguments(request):
        pod["initContainers"] = [{"name": "host-facts", "args": arguments}]
    pod["containers"] = [
        {
            "name": "gdrcheck",
            "resources": {"requests": dict(request.resources), "limits": dict(request.resources)},
        }
    ]
    template: dict[str, Any] = {"spec": pod}
    if request.networks:
        networks = {"k8s.v1.cni.cncf.io/networks": ",".join(request.networks)}
        template = {"metadata": {"annotations": networks}, **template}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "gdrcheck"},
        "spec": {"template": template},
    }


def _collector_arguments(request: Request) -> list[str]:
    """Those of the component host-facts, and what this profile has it look at beside."""
    if "host-facts" not in request.components:
        return []
    return [
        "--out=/run/gdrcheck/host",
        "--mounts-of=/host/proc/1",
        *(f"--module={name}" for name in request.profile.expect.modules),
        *(["--neighbours=lldp"] if request.neighbours == "lldp" else []),
    ]
