"""What the plays must work out over several nodes: pure functions, run on the controller."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

# Up to so many nodes everyone reaches for everyone; above, for the partners of the schedule.
ALL_REACH_ALL = 16

HostVars = Mapping[str, Mapping[str, Any]]
Plan = Mapping[str, Any]


class Nodes:
    """The nodes of a run with what the tasks so far registered for them."""

    def __init__(self, plan: Plan, hostvars: HostVars) -> None:
        self.plan = plan
        self.hostvars = hostvars
        self.names = list(plan["nodes"])
        self.first = self.names[0]

    def result(self, name: str, task: str) -> Mapping[str, Any]:
        """What a task registered for a node; empty when it did not run there."""
        found = self.hostvars[name].get(f"gdrcheck_{task}") or {}
        return {} if found.get("skipped") else found

    def targets(self, name: str) -> list[str]:
        """The nodes that this one must reach: those whose preflight passed."""
        wanted = self.neighbours(name)
        return [other for other in wanted if self.preflight_state(other)["state"] == "ok"]

    def neighbours(self, name: str) -> list[str]:
        """The nodes that this one has to do with, in the order of the run."""
        if len(self.names) <= ALL_REACH_ALL or name == self.first:
            return [other for other in self.names if other != name]
        return [n for n in self.names if n != name and n in self._near(name)]

    def _near(self, name: str) -> set[str]:
        return {self.first, *self.plan["node_options"][name].get("partners", ())}

    def reached(self, name: str) -> Mapping[str, str]:
        """What a node found: target -> empty, or what happened instead."""
        found: Mapping[str, str] = self.result(name, "reach").get("reached", {})
        return found

    def triers(self, name: str) -> dict[str, str]:
        """What the others found at this node's address, but for those who reach nobody."""
        found = {}
        for other in self.neighbours(name):
            reached = self.reached(other)
            if name in reached and (len(reached) == 1 or "" in reached.values()):
                found[other] = reached[name]
        return found

    def reach_finding(self, name: str) -> dict[str, Any] | None:
        """The finding against a node that nobody reaches, or that reaches nobody. One bad end
        must not strike off the others."""
        others = self.triers(name)
        if others and "" not in others.values():
            peer, observed = next(iter(others.items()))
            return unreachable_finding(name, f"{observed} (tried by {', '.join(others)})", peer)
        reached = self.reached(name)
        if len(reached) < 2 or "" in reached.values():
            return None
        if not any("" in self.triers(target).values() for target in reached):
            return None
        peer, observed = next(iter(reached.items()))
        return unreachable_finding(name, f"reaches no other node: {observed}", peer)

    def preflight_state(self, name: str) -> dict[str, Any]:
        """A node's state after its own preflight."""
        result = self.result(name, "preflight")
        if trouble := lost(result, "refused", "preflight"):
            return trouble
        if not result:
            return state("no result", "preflight did not run")
        return refusal(result["findings"])

    def ready_state(self, name: str) -> dict[str, Any]:
        """A node's state after preflight, its way to the others, and the delivery of the image."""
        own = self.preflight_state(name)
        if own["state"] != "ok":
            return own
        if trouble := lost(self.result(name, "reach"), "refused", "node-to-node preflight"):
            return trouble
        if finding := self.reach_finding(name):
            return refusal([finding])
        for task in ("archive", "deploy"):
            if trouble := lost(self.result(name, task), "refused", f"image {task}"):
                return trouble
        return state("ok")

    def final_state(self, name: str) -> dict[str, Any]:
        """A node's state at the end of the run."""
        ready = self.ready_state(name)
        if ready["state"] != "ok":
            return ready
        words = {"start": "start failed", "wait": "no result", "fetch": "no result"}
        for task, word in words.items():
            result = self.result(name, task)
            if trouble := lost(result, word, task):
                return trouble
            if not result:
                return state(word, f"{task} did not run")
        waited = self.result(name, "wait")
        if waited["timed_out"]:
            return state("timed out", waited["problem"])
        if waited["exit_code"] not in (0, 1, 2):
            return state("no result", waited["problem"] or died(waited["exit_code"]))
        return state("ok")


def state(word: str, reason: str = "", findings: Iterable[Any] = ()) -> dict[str, Any]:
    """The state of a node as ``gdrcheck merge`` reads it."""
    return {"state": word, "reason": reason, "findings": list(findings)}


def lost(result: Mapping[str, Any], word: str, task: str) -> dict[str, Any] | None:
    """The state of a node whose task could not be reached or failed; None if it did not."""
    error = str(result.get("module_stderr", "")).strip().partition("\n")[0]
    message = ": ".join(filter(None, (str(result.get("msg", "")).strip(), error)))
    if result.get("unreachable"):
        return state("unreachable", f"{task}: {message}")
    if result.get("failed"):
        return state(word, f"{task}: {message}")
    return None


def refusal(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """Refused for all of these findings; ok without one."""
    lines = [f"{one['observed']} (expected {one['expected']})" for one in findings]
    return state("refused" if findings else "ok", "; ".join(lines), findings)


def unreachable_finding(name: str, observed: str, peer: str) -> dict[str, Any]:
    """The finding about a node's address, in the shape of gdrcheck/findings/model.py."""
    return {
        "code": "RUN-ADDRESS-UNREACHABLE",
        "where": {"node": name, "peer": peer},
        "observed": observed,
        "expected": "the nodes reach each other at gdrcheck_address and gdrcheck_port",
        "evidence": {
            "remedy": "set gdrcheck_address to the node's address in the network that the nodes "
            "share, and open gdrcheck_port there"
        },
    }


def died(exit_code: int) -> str:
    """How the container ended, in words."""
    signal = f", killed by signal {exit_code - 128}" if exit_code > 128 else ""
    return f"the container ended with exit status {exit_code}{signal}"


def our_variables(hostvars: HostVars, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Of each host the variables that gdrcheck judges, and no other: they may hold secrets."""
    found = {}
    for name in names:
        variables = hostvars[name]
        wanted = (k for k in variables if k.startswith("gdrcheck_") or k == "ansible_host")
        found[name] = {key: variables[key] for key in wanted}
    return found


def targets(plan: Plan, hostvars: HostVars, name: str) -> list[dict[str, Any]]:
    """Names, addresses and ports of the nodes that this one must reach."""
    options = plan["node_options"]
    return [
        {"node": other, "address": options[other]["address"], "port": options[other]["port"]}
        for other in Nodes(plan, hostvars).targets(name)
    ]


def group(plan: Plan, hostvars: HostVars, name: str) -> str:
    """The group that later plays find a node in."""
    if Nodes(plan, hostvars).ready_state(name)["state"] != "ok":
        return "gdrcheck_refused"
    has_image = hostvars[name]["gdrcheck_preflight"]["image_id"]
    return "gdrcheck_with_image" if has_image else "gdrcheck_without_image"


def is_ready(plan: Plan, hostvars: HostVars, name: str) -> bool:
    """Whether a container can be started on a node."""
    return bool(Nodes(plan, hostvars).ready_state(name)["state"] == "ok")


def states(plan: Plan, hostvars: HostVars, damaged: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The state of every node, for the merge. ``damaged``: why a node's archive is no good."""
    nodes = Nodes(plan, hostvars)
    judge = nodes.ready_state if plan["check_mode"] else nodes.final_state
    found = {name: judge(name) for name in nodes.names}
    for name, reason in damaged.items():
        if found[name]["state"] == "ok":
            found[name] = state("no result", reason)
    return found


def troubles(summary: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with each bad node, from ``summary.json``. A node is not bad because something
    on it waited for another one, nor because check mode measured nothing."""
    found = {}
    for name, node in summary["nodes"].items():
        bad_state = node["state"] != "ok"
        if summary["check_mode"] and node["state"] not in ("unreachable", "refused"):
            continue
        lines = [f"{node['state']}: {node['reason']}"] if bad_state else []
        for line in node["troubles"]:
            if not line.startswith("blocked:") and not (bad_state and node["reason"] in line):
                lines.append(line)
        if lines:
            found[name] = "\n".join(lines)
    return found


def archive_image(variables: Mapping[str, Mapping[str, Any]], home: str) -> str:
    """The id of the image to be sent as an archive; empty when none is. That the archive is missing
    or not named is for ``gdrcheck prepare`` to say, with the place."""
    for own in variables.values():
        if own.get("gdrcheck_image_source") == "archive":
            path = Path(home, str(own.get("gdrcheck_image_archive", "")))
            return archive_id(str(path)) if path.is_file() else ""
    return ""


def archive_id(path: str) -> str:
    """The id of the image in an archive made by ``podman save`` or ``docker save``: the digest of
    its configuration, which both engines use as the image's id."""
    try:
        with tarfile.open(path) as archive:
            manifest = _member(archive, "manifest.json")
            if manifest is not None:
                name = str(manifest[0]["Config"])
                return "sha256:" + name.rpartition("/")[2].removesuffix(".json")
            index = _member(archive, "index.json")
            digest = str(index["manifests"][0]["digest"])
            content = _member(archive, f"blobs/{digest.replace(':', '/')}")
            return str(content["config"]["digest"])
    except (OSError, tarfile.TarError, ValueError, KeyError, IndexError, TypeError) as error:
        raise AnsibleFilterError(
            f"gdrcheck_image_archive: {path} is no image archive ({error}); expected one made by "
            "podman save or docker save"
        ) from error


def _member(archive: tarfile.TarFile, name: str) -> Any:
    try:
        file = archive.extractfile(name)
    except KeyError:
        return None
    return json.loads(file.read(1 << 20)) if file else None


class FilterModule:
    """The filters, by name."""

    def filters(self) -> dict[str, Any]:
        """What Ansible asks for."""
        return {
            "gdrcheck_variables": our_variables,
            "gdrcheck_targets": targets,
            "gdrcheck_group": group,
            "gdrcheck_is_ready": is_ready,
            "gdrcheck_states": states,
            "gdrcheck_troubles": troubles,
            "gdrcheck_archive_image": archive_image,
        }
