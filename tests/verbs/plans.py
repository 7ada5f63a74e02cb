"""Plans of exchanges between host memory, for both ends."""

from __future__ import annotations

from gdrcheck.transfer import ATOMICS, OPERATIONS, Operation, Variant, variants
from gdrcheck.verbs.protocol import Arm

SIZES = (1, 2, 7, 8, 63, 64, 65, 1023, 1024, 1025, 4097)
HOST: tuple[Variant, ...] = variants("host-host", (), ())
ALL: tuple[Operation, ...] = OPERATIONS + ATOMICS


def sizes_of(operation: Operation, wanted: tuple[int, ...] = SIZES) -> tuple[int, ...]:
    """The sizes that an operation can move."""
    return (8,) if operation in ATOMICS else wanted


def plans(
    operation: Operation, *, sizes: tuple[int, ...] | None = None, **changes: object
) -> tuple[Arm, Arm]:
    """For source and sink: three messages of each size, without and with relaxed ordering."""
    common = {
        "operation": operation,
        "sizes_bytes": sizes_of(operation) if sizes is None else sizes,
        "iterations": 3,
        "variants": HOST,
        "run_tag": 42,
        "direction": 1,
        **changes,
    }
    return (
        Arm.model_validate({**common, "role": "source"}),
        Arm.model_validate({**common, "role": "sink"}),
    )
