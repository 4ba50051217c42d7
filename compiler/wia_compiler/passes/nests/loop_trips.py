"""The range of an ``scf.for`` that runs as a ``loop.for`` does, whatever its bounds are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from wia_compiler.dialects.loop_control import ForOp
from wia_compiler.dialects.loop_elements import PROVEN
from wia_compiler.passes.nests.point_body import PointBody

Check = Callable[[SSAValue, Sequence[SSAValue], str, Sequence[int]], None]


@dataclass(frozen=True)
class CountedRange:
    """``lower``, ``upper`` and ``step`` of the ``scf.for``.

    Where ``first`` is given the loop counts its iterations, and its variable is ``first`` plus the
    count times ``stride``.
    """

    lower: SSAValue
    upper: SSAValue
    step: SSAValue
    first: SSAValue | None = None
    stride: SSAValue | None = None

    def value(self, body: PointBody, variable: SSAValue) -> SSAValue:
        """The variable of the text as an i64, inside the loop."""
        if self.first is not None and self.stride is not None:
            distance = body.add(arith.MuliOp(variable, self.stride))
            variable = body.add(arith.AddiOp(self.first, distance))
        return body.from_index(variable)


def counted_range(
    body: PointBody, op: ForOp, index: Callable[[SSAValue], SSAValue], check: Check
) -> CountedRange:
    """The range of a loop.

    A loop whose variable might overflow counts its iterations instead: where ``lower < upper``
    ``(upper - lower - 1) / step + 1`` of them, in unsigned arithmetic, which holds that difference
    whatever the signs. A step that is not above 0 is reported by a check, and the loop does not
    run.
    """
    lower, upper, step = (index(each) for each in (op.lower, op.upper, op.step))
    if PROVEN in op.attributes:
        return CountedRange(lower, upper, step)
    zero, one = body.index(0), body.index(1)
    counts_up = body.add(arith.CmpiOp(step, zero, "sgt"))
    check(counts_up, [step], f"step of {op.axis.data}", [0])
    safe_step = body.add(arith.SelectOp(counts_up, step, one))
    last = body.add(arith.SubiOp(body.add(arith.SubiOp(upper, lower)), one))
    trips = body.add(arith.AddiOp(body.add(arith.DivUIOp(last, safe_step)), one))
    # More iterations than an i64 counts would never end: they are cut, not run 0 times.
    most = body.index(2**63 - 1)
    fits = body.add(arith.CmpiOp(trips, most, "ule"))
    trips = body.add(arith.SelectOp(fits, trips, most))
    runs = body.add(arith.AndIOp(counts_up, body.add(arith.CmpiOp(lower, upper, "slt"))))
    count = body.add(arith.SelectOp(runs, trips, zero))
    return CountedRange(zero, count, one, lower, safe_step)
