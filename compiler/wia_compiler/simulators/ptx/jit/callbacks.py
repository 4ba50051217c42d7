"""What compiled code calls for: bulk copies, and what is on its way for a barrier."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from wia_compiler.simulators.ptx.bulk_copies import BulkUnit
from wia_compiler.simulators.ptx.bulk_plan import BulkPlan, bulk_plan
from wia_compiler.simulators.ptx.decode_bulk import groups_left
from wia_compiler.simulators.ptx.jit.layout import BULK_VALUES, FINISH, LAND, SETTLE
from wia_compiler.simulators.ptx.mbarrier import Misuse
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.values.form import Form

_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)
_VALUES = ctypes.c_int64 * (BULK_VALUES * WARP)
"""The operands of a bulk copy: a row of lanes each."""


class Callbacks:
    """The copies of one launch, whose blocks run one after the other.

    A call gives whether a phase is over, in its lowest bit, and above it whether anything is on
    its way; -1 for what the other engine must say. What a call raises is kept as ``raised``.
    """

    def __init__(self, unit: BulkUnit, code: Sequence[Instruction]):
        self._unit = unit
        self._code = code
        self._steps: dict[int, Callable[[int, int], None]] = {}
        self._values = 0
        self.raised: BaseException | None = None
        self._function = _PROTOTYPE(self._called)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _called(self, what: int, a: int, b: int, values: int | None) -> int:
        barriers, groups = self._unit.barriers, self._unit.groups
        complete = False
        try:
            if what == SETTLE:
                complete = barriers.is_complete(a, b)
            elif what == LAND:
                barriers.land(a)
            elif what == FINISH:
                groups.finish()
                groups.clear()
                barriers.clear()
            else:
                self._values = values or 0
                self._step(what)(a, b)
        except Misuse:
            return -1
        except BaseException as error:
            self.raised = error
            return -1
        return complete | (len(groups) + barriers.flying) << 1

    def _step(self, number: int) -> Callable[[int, int], None]:
        step = self._steps.get(number)
        if step is None:
            step = self._steps[number] = self._made(number)
        return step

    def _made(self, number: int) -> Callable[[int, int], None]:
        """What instruction ``number`` does, for the first thread of a warp and a mask."""
        form, groups = Form(self._code[number]), self._unit.groups

        def commit(first: int, mask: int) -> None:
            for thread in _lanes(first, mask):
                groups.commit(thread)

        if "commit_group" in form.flags:
            return commit
        if "wait_group" in form.flags:
            left, reads_only = groups_left(form), "read" in form.flags

            def wait(first: int, mask: int) -> None:
                for thread in _lanes(first, mask):
                    groups.wait(thread, left, reads_only=reads_only)

            return wait
        plan = bulk_plan(form, number)
        return lambda first, mask: self._issue(plan, first, mask)

    def _issue(self, plan: BulkPlan, first: int, mask: int) -> None:
        """Begin the copy of each lane of a mask."""
        rows = _VALUES.from_address(self._values)
        for thread in _lanes(first, mask):
            values = [rows[row * WARP + thread - first] for row in range(len(plan.operands))]
            plan.issue(self._unit, 0, thread, values)


def _lanes(first: int, mask: int) -> list[int]:
    """The threads of a mask of lanes."""
    return [first + lane for lane in range(WARP) if mask >> lane & 1]
