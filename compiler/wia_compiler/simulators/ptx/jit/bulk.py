"""Bulk copies in compiled code: their values are handed to ``callbacks``, which copies."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.bulk_plan import bulk_plan
from wia_compiler.simulators.ptx.jit.access import address_of, bail_if
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import converted
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.layout import BULK_VALUES
from wia_compiler.simulators.ptx.jit.mbarrier import keep
from wia_compiler.simulators.ptx.jit.specials import first_thread, word
from wia_compiler.simulators.ptx.jit.warp import active_bits
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

_I64 = np.dtype(np.int64)


def write_bulk(lanes: Lanes, form: Form, number: int) -> None:
    """``cp.async.bulk`` and its like, and their groups, which matter while copies go out."""
    function, flags = lanes.function, form.flags
    if not flags & {"commit_group", "wait_group"}:
        plan = bulk_plan(form, number)
        if len(plan.operands) > BULK_VALUES:
            raise UnknownForm(form.instruction.name)
        for row, (operand, type) in enumerate(zip(plan.operands, plan.types, strict=True)):
            value: Value = address_of(lanes, operand) if type is None else lanes.read(operand, type)
            keep(function, "bulk", converted(function, value, _I64), row)
        _call(lanes, number)
        return
    some = function.new(f"icmp ne i64 {word(function, 'outgoing')}, 0")
    ask, after = function.fresh("ask"), function.fresh("after")
    function.emit(f"br i1 {some}, label %{ask}, label %{after}")
    function.start(ask)
    _call(lanes, number)
    function.emit(f"br label %{after}")
    function.start(after)


def _call(lanes: Lanes, number: int) -> None:
    function: Function = lanes.function
    thread = function.new(f"zext i32 {first_thread(function, lanes.layout)} to i64")
    bits = function.new(f"zext i32 {active_bits(lanes)} to i64")
    done = function.new(
        f"call i64 @call_out(ptr %context, i64 {number}, i64 {thread}, i64 {bits}, ptr %bulk)"
    )
    bail_if(function, function.new(f"icmp slt i64 {done}, 0"))
