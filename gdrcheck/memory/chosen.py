"""The GPU that a parent chose for its child, opened."""

from __future__ import annotations

from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.devices import find
from gdrcheck.gpu.session import Session
from gdrcheck.outcome import ProbeError
from gdrcheck.verbs.protocol import GpuChoice


def chosen_gpu(session: Session, choice: GpuChoice, *, emulated: bool) -> Gpu:
    """The GPU, open for as long as the session is.

    ``emulated`` is what the facts say of the driver. ProbeError when that of this process is of the
    other kind, or shows no such GPU; CudaError when the GPU cannot be opened.
    """
    if session.driver().emulated != emulated:
        here, facts = ("is not", "is") if emulated else ("is", "is not")
        raise ProbeError(
            f"the CUDA driver of this process {here} the lab's emulation, but the facts say that "
            f"it {facts}: run on a node as its node phase found it",
            step="start CUDA",
        )
    survey = session.survey()
    found = find(survey.gpus, slot=choice.slot, uuids=choice.uuids)
    if found is None:
        shown = ", ".join(f"{gpu.slot} ({gpu.uuid})" for gpu in survey.gpus) or "none"
        lost = "".join(f"; {error}" for error in survey.lost)
        raise ProbeError(
            f"CUDA does not show the GPU at {choice.slot} ({', '.join(choice.uuids) or 'no UUID'}) "
            f"to this process; it shows {shown}{lost}",
            step="find the GPU",
        )
    return session.open(found)
