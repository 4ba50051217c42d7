"""What compiled code calls for: the sectors of a box whose rows do not ascend in memory."""

from __future__ import annotations

import ctypes

from wia_compiler.simulators.ptx.bulk_copies import BulkUnit
from wia_compiler.simulators.ptx.mbarrier import Misuse
from wia_compiler.simulators.ptx.threads import WARP

_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)  # fmt: skip


class Callbacks:
    """Counts boxes for one launch.

    A call gives the sectors above 32 bits of bytes, or -1 for what the other engine must say. What
    a call raises is kept as ``raised``.
    """

    def __init__(self, unit: BulkUnit):
        self._unit = unit
        self.raised: BaseException | None = None
        self._function = _PROTOTYPE(self._called)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _called(self, map: int, axes: int, values: int | None) -> int:
        try:
            row = (ctypes.c_int64 * (axes * WARP)).from_address(values or 0)
            box = self._unit.box(self._unit.tensor(map), [row[WARP * axis] for axis in range(axes)])
            return box.sectors() << 32 | box.inside.nbytes
        except Misuse:
            return -1
        except BaseException as error:
            self.raised = error
            return -1
