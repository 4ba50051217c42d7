"""Bulk copies in compiled code, one lane after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wia_compiler.simulators.ptx.bulk_copies import TMA
from wia_compiler.simulators.ptx.bulk_plan import BulkPlan, bulk_plan
from wia_compiler.simulators.ptx.decode_bulk import groups_left
from wia_compiler.simulators.ptx.jit.access import address_of, bail_if
from wia_compiler.simulators.ptx.jit.code import Value
from wia_compiler.simulators.ptx.jit.conversions import converted
from wia_compiler.simulators.ptx.jit.departures import reduction_name
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.layout import BULK_VALUES, TRAFFIC_WORDS
from wia_compiler.simulators.ptx.jit.loops import each_lane
from wia_compiler.simulators.ptx.jit.mbarrier import keep
from wia_compiler.simulators.ptx.jit.memory import Slots
from wia_compiler.simulators.ptx.jit.specials import first_thread, word
from wia_compiler.simulators.ptx.jit.warp import active_bits
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.tensor_map import ELEMENTS
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

_I64 = np.dtype(np.int64)


def reduction_of(instruction: Instruction) -> str:
    """What a bulk copy combines with device memory; empty where it does not."""
    return bulk_plan(Form(instruction), 0).operation if "reduce" in instruction.modifiers else ""


def write_bulk(lanes: Lanes, form: Form, number: int, slots: Slots) -> None:
    """``cp.async.bulk`` and its like, and their groups."""
    flags = form.flags
    if "commit_group" in flags:
        _each(lanes, lambda lane, thread: _commit(lanes, thread))
    elif "wait_group" in flags:
        left, reads = groups_left(form), str("read" in flags).lower()
        _each(
            lanes,
            lambda lane, thread: (
                f"i1 @wait_departures(ptr %context, i64 {thread}, i64 {left}, i1 {reads})"
            ),
        )
    else:
        _write_copy(lanes, bulk_plan(form, number), slots)


def _commit(lanes: Lanes, thread: str) -> str:
    function = lanes.function
    groups = word(function, "open_groups", "ptr")
    place = function.new(f"getelementptr i64, ptr {groups}, i64 {thread}")
    open_ = function.new(f"load i64, ptr {place}, align 8")
    function.emit(f"store i64 {function.new(f'add i64 {open_}, 1')}, ptr {place}, align 8")
    return ""


def _write_copy(lanes: Lanes, plan: BulkPlan, slots: Slots) -> None:
    function = lanes.function
    if len(plan.operands) > BULK_VALUES:
        raise UnknownForm(f"a bulk copy of {len(plan.operands)} operands")
    for row, (operand, type) in enumerate(zip(plan.operands, plan.types, strict=True)):
        value: Value = address_of(lanes, operand) if type is None else lanes.read(operand, type)
        keep(function, "bulk", converted(function, value, _I64), row)
    slot = "null"
    if slots.get(TMA) is not None:
        traffic = word(function, "traffic", "ptr")
        slot = function.new(f"getelementptr i64, ptr {traffic}, i64 {TRAFFIC_WORDS * slots[TMA]}")

    def call(lane: str, thread: str) -> str:
        def value(row: int) -> str:
            return function.new(f"load i64, ptr {place(row)}, align 8")

        def place(row: int) -> str:
            start = function.new(f"getelementptr i64, ptr %bulk, i64 {row * WARP}")
            return function.new(f"getelementptr i64, ptr {start}, i64 {lane}")

        if plan.multicast:
            mask = value(len(plan.operands) - 1)
            bail_if(function, function.new(f"icmp ne i64 {mask}, 1"))
        combine = reduction_name(plan.operation) if plan.operation else "null"
        axes, context = plan.axes, "ptr %context"
        match plan.kind:
            case "load" | "move":
                near = str(plan.kind == "move").lower()
                target, source, size, bar = (value(row) for row in range(4))
                return (
                    f"i1 @load_run({context}, i1 {near}, i64 {target}, i64 {source}, i64 {size}, "
                    f"i64 {bar}, ptr {slot})"
                )
            case "store":
                target, source, size = (value(row) for row in range(3))
                type = _type_number(plan)
                return (
                    f"i1 @store_run({context}, i64 {thread}, i64 {target}, i64 {source}, "
                    f"i64 {size}, i64 {type}, ptr {combine}, ptr {slot})"
                )
            case "load_box":
                return (
                    f"i1 @load_box({context}, i64 {value(0)}, i64 {value(1)}, ptr {place(2)}, "
                    f"i64 {axes}, i64 {value(2 + axes)}, ptr {slot})"
                )
            case "store_box":
                return (
                    f"i1 @store_box({context}, i64 {thread}, i64 {value(0)}, ptr {place(1)}, "
                    f"i64 {axes}, i64 {value(1 + axes)}, ptr {combine}, ptr {slot})"
                )
            case "prefetch":
                return f"i1 @prefetch_run({context}, i64 {value(0)}, i64 {value(1)})"
            case "prefetch_box":
                return f"i1 @prefetch_box({context}, i64 {value(0)}, ptr {place(1)}, i64 {axes})"

    _each(lanes, call)


def _type_number(plan: BulkPlan) -> int:
    """The driver's number of the type that a reduction is of; any where there is none."""
    if plan.type is None or not plan.operation:
        return 0
    return ELEMENTS.index(plan.type.value)


def _each(lanes: Lanes, call: Callable[[str, str], str]) -> None:
    """A loop over the lanes that run; ``call`` gives a call that must succeed, or none."""
    function = lanes.function
    first = function.new(f"zext i32 {first_thread(function, lanes.layout)} to i64")

    def turn(narrow: str) -> None:
        lane = function.new(f"zext i32 {narrow} to i64")
        text = call(lane, function.new(f"add i64 {first}, {lane}"))
        if text:
            done = function.new(f"call {text}")
            bail_if(function, function.new(f"xor i1 {done}, true"))

    each_lane(function, active_bits(lanes), turn)
