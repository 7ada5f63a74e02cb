"""Parts of facts that machines of one make have alike, kept once for all nodes of a run. Pure."""

from __future__ import annotations

from gdrcheck.facts import Facts, Gpu, GpuHealth, NvLink, Nvml, PciFunction, PciTree


class Alike:
    """The parts of one run. They are most of what facts weigh: of 1,000 nodes 400 MB without."""

    def __init__(self) -> None:
        self._functions: dict[PciFunction, PciFunction] = {}
        self._links: dict[NvLink, NvLink] = {}

    def of(self, facts: Facts) -> Facts:
        """Facts equal to ``facts``, with those parts that earlier facts had as well."""
        parts: dict[str, PciTree | Nvml] = {}
        if isinstance(facts.pci, PciTree):
            functions = tuple(self._functions.setdefault(one, one) for one in facts.pci.functions)
            parts["pci"] = facts.pci.model_copy(update={"functions": functions})
        if isinstance(facts.nvml, Nvml):
            gpus = tuple(map(self._gpu, facts.nvml.gpus))
            parts["nvml"] = facts.nvml.model_copy(update={"gpus": gpus})
        return facts.model_copy(update=parts)

    def _gpu(self, gpu: Gpu) -> Gpu:
        if not isinstance(gpu.health, GpuHealth) or not isinstance(gpu.health.nvlinks, tuple):
            return gpu
        links = tuple(self._links.setdefault(one, one) for one in gpu.health.nvlinks)
        health = gpu.health.model_copy(update={"nvlinks": links})
        return gpu.model_copy(update={"health": health})
