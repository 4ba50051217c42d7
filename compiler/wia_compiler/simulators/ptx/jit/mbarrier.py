"""``mbarrier`` in compiled code: the 64 bits of a barrier, one lane after the other.

What is on its way for a barrier is noted by ``transfers``. Whatever a barrier must not be asked for
ends the launch; the other engine then says what it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.decode_mbarrier import BarrierForm, barrier_form
from wia_compiler.simulators.ptx.decode_memory import space_of
from wia_compiler.simulators.ptx.jit.access import (
    Access,
    address_of,
    bail_if,
    check_lanes,
    window_of,
)
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import converted
from wia_compiler.simulators.ptx.jit.lanes import Lanes, lanes_of_mask
from wia_compiler.simulators.ptx.jit.layout import word_offset
from wia_compiler.simulators.ptx.jit.warp import active_bits
from wia_compiler.simulators.ptx.mbarrier import (
    BARRIER_BYTES,
    EXPECTED_SHIFT,
    MARK,
    MARK_SHIFT,
    MOST_COUNT,
    MOST_TX,
    PHASE_SHIFT,
    TX_BITS,
    TX_SHIFT,
)
from wia_compiler.simulators.ptx.memory import SHARED_WINDOW
from wia_compiler.simulators.ptx.syntax import Immediate, Operand
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form

U64 = np.dtype(np.uint64)
_INIT, _INVALIDATE, _EXPECT, _COMPLETE, _ARRIVE = range(5)
_ACTIONS = {
    "init": _INIT,
    "inval": _INVALIDATE,
    "expect_tx": _EXPECT,
    "complete_tx": _COMPLETE,
    "arrive": _ARRIVE,
    "arrive_drop": _ARRIVE,
}


def shared_places(lanes: Lanes, form: Form, operand: Operand, size: int) -> Value:
    """Where in shared memory an address of each lane lies, aligned and inside."""
    function = lanes.function
    address = address_of(lanes, operand)
    if space_of(form) == "generic":
        window = function.splat(SHARED_WINDOW, U64)
        address = function.each(U64, f"sub {function.vector(U64)} {{0}}, {{1}}", address, window)
    access = Access("shared", size, size, None)
    check_lanes(function, access, window_of(lanes, access, address), lanes.active())
    return address


def keep(function: Function, name: str, value: Value, row: int = 0) -> None:
    """Put a value of every lane where a function finds it, in a row of 32."""
    element, width = element_type(value.dtype), function.width
    for part, each in enumerate(value.parts):
        offset = row * 32 + part * width
        place = function.new(f"getelementptr {element}, ptr %{name}, i64 {offset}")
        function.emit(f"store <{width} x {element}> {each}, ptr {place}, align 8")


def kept(function: Function, name: str) -> Value:
    """What a function left for every lane."""
    width = function.width
    parts: list[str] = []
    for part in range(function.parts):
        place = function.new(f"getelementptr i64, ptr %{name}, i64 {part * width}")
        parts.append(function.new(f"load <{width} x i64>, ptr {place}, align 8"))
    return Value(U64, tuple(parts))


def kept_row(function: Function, name: str, dtype: np.dtype[Any], row: int) -> Value:
    """A row that ``keep`` put somewhere, as it is by now."""
    element, width = element_type(dtype), function.width
    parts: list[str] = []
    for part in range(function.parts):
        offset = row * 32 + part * width
        place = function.new(f"getelementptr {element}, ptr %{name}, i64 {offset}")
        parts.append(function.new(f"load <{width} x {element}>, ptr {place}, align 8"))
    return Value(dtype, tuple(parts))


def write_mbarrier(lanes: Lanes, form: Form, complete: str | None) -> None:
    """Every ``mbarrier`` instruction; ``complete`` are the lanes whose phase a wait found over."""
    parts, function = barrier_form(form), lanes.function
    if parts.action == "pending_count":
        assert parts.value is not None
        token = lanes.read(parts.value, TYPES["u64"])
        mask = function.splat(MOST_COUNT, U64)
        count = function.each(U64, f"and {function.vector(U64)} {{0}}, {{1}}", token, mask)
        lanes.write(parts.result, TYPES["u32"], converted(function, count, np.dtype(np.uint32)))
        return
    if parts.is_wait:
        assert complete is not None
        lanes.write(parts.result, TYPES["pred"], lanes_of_mask(function, complete))
        return
    _act(lanes, form, parts)


def _act(lanes: Lanes, form: Form, parts: BarrierForm) -> None:
    function = lanes.function
    assert parts.address is not None
    keep(function, "places", shared_places(lanes, form, parts.address, BARRIER_BYTES))
    for name, operand, default in (("first", parts.value, 1), ("second", parts.tx, 0)):
        value = lanes.read(operand if operand is not None else Immediate(default), TYPES["u32"])
        keep(function, name, converted(function, value, U64))
    drops, completes = (
        str(each).lower() for each in (parts.action == "arrive_drop", parts.completes)
    )
    done = function.new(
        f"call i1 @barrier_act(ptr %context, ptr %places, ptr %first, ptr %second, ptr %before, "
        f"i32 {active_bits(lanes)}, i32 {_ACTIONS[parts.action]}, i1 {drops}, i1 {completes})"
    )
    bail_if(function, function.new(f"xor i1 {done}, true"))
    if parts.result is not None:
        lanes.write(parts.result, TYPES["u64"], kept(function, "before"))


def write_phase_test(lanes: Lanes, form: Form) -> str:
    """The lanes, of those that run, that find the phase that they wait for over."""
    parts, function = barrier_form(form), lanes.function
    assert parts.address is not None and parts.value is not None
    keep(function, "places", shared_places(lanes, form, parts.address, BARRIER_BYTES))
    if parts.by_parity:
        phase = converted(function, lanes.read(parts.value, TYPES["u32"]), U64)
    else:
        token = lanes.read(parts.value, TYPES["u64"])
        shift = function.splat(PHASE_SHIFT, U64)
        phase = function.each(U64, f"lshr {function.vector(U64)} {{0}}, {{1}}", token, shift)
    one = function.splat(1, U64)
    keep(
        function,
        "first",
        function.each(U64, f"and {function.vector(U64)} {{0}}, {{1}}", phase, one),
    )
    found = function.new(
        f"call i64 @barrier_wait(ptr %context, ptr %places, ptr %first, i32 {active_bits(lanes)})"
    )
    bail_if(function, function.new(f"icmp slt i64 {found}, 0"))
    return function.new(f"trunc i64 {found} to i32")


def _word(name: str, result: str, type: str = "i64") -> str:
    return (
        f"  %{result}_place = getelementptr i8, ptr %context, i64 {word_offset(name)}\n"
        f"  %{result} = load {type}, ptr %{result}_place, align 8"
    )


_LANE = """  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %place_at = getelementptr i64, ptr %places, i32 %lane
  %place = load i64, ptr %place_at, align 8
  %first_at = getelementptr i64, ptr %first, i32 %lane
  %value = load i64, ptr %first_at, align 8"""
_STATE = f"""{_word("shared", "shared", "ptr")}
  %at = getelementptr i8, ptr %shared, i64 %place
  %old = load i64, ptr %at, align 8
{_word("in_flight_at", "flights", "ptr")}
  %flight = lshr i64 %place, 3
  %flight_at = getelementptr i32, ptr %flights, i64 %flight
  %flying = load i32, ptr %flight_at, align 4
  %busy = icmp ne i32 %flying, 0
  %mark = lshr i64 %old, {MARK_SHIFT}
  %is_barrier = icmp eq i64 %mark, {MARK}"""
_NEXT = """  %less = sub i32 %rest, 1
  %next = and i32 %rest, %less"""
_SIGNED_MARK = (MARK << MARK_SHIFT) - (1 << 64)


def mbarrier_text() -> str:
    """``@barrier_act`` and ``@barrier_wait``, for the lanes of a mask in turn."""
    tx_mask = (1 << TX_BITS) - 1
    top = 64 - TX_SHIFT - TX_BITS
    return f"""
; Sectors and bytes of a box whose rows do not ascend, which are counted outside.
define internal i64 @call_out(ptr %context, i64 %a, i64 %b, ptr %values) noinline {{
{_word("call", "function", "ptr")}
  %result = call i64 %function(i64 %a, i64 %b, ptr %values)
  ret i64 %result
}}

define internal i1 @barrier_one(ptr %context, i64 %place, i64 %value, i64 %tx, ptr %token,
    i32 %action, i1 %drops, i1 %completes) noinline {{
entry:
{_STATE}
{_word("changes", "changes")}
  %more = add i64 %changes, 1
  store i64 %more, ptr %changes_place, align 8
  switch i32 %action, label %live [ i32 {_INIT}, label %init i32 {_INVALIDATE}, label %inval ]
init:
  %none = icmp eq i64 %value, 0
  %many = icmp ugt i64 %value, {MOST_COUNT}
  %wrong = or i1 %none, %many
  %unfit = or i1 %wrong, %busy
  br i1 %unfit, label %no, label %make
make:
  %up = shl i64 %value, {EXPECTED_SHIFT}
  %both = or i64 %up, %value
  %fresh = or i64 %both, {_SIGNED_MARK}
  store i64 %fresh, ptr %at, align 8
  ret i1 true
inval:
  %idle = xor i1 %busy, true
  %may = and i1 %idle, %is_barrier
  br i1 %may, label %clear, label %no
clear:
  store i64 0, ptr %at, align 8
  ret i1 true
live:
  br i1 %is_barrier, label %known, label %no
known:
  %pending = and i64 %old, {MOST_COUNT}
  %moved = lshr i64 %old, {EXPECTED_SHIFT}
  %expected = and i64 %moved, {MOST_COUNT}
  %high = shl i64 %old, {top}
  %came = ashr i64 %high, {64 - TX_BITS}
  %phases = lshr i64 %old, {PHASE_SHIFT}
  %phase = and i64 %phases, 1
  %arrives = icmp eq i32 %action, {_ARRIVE}
  %completes_tx = icmp eq i32 %action, {_COMPLETE}
  %minus = sub i64 0, %value
  %given = select i1 %completes_tx, i64 %minus, i64 %value
  %delta = select i1 %arrives, i64 %tx, i64 %given
  %new_tx = add i64 %came, %delta
  %over = icmp sgt i64 %new_tx, {MOST_TX}
  %under = icmp slt i64 %new_tx, {-MOST_TX}
  %outside = or i1 %over, %under
  br i1 %outside, label %no, label %come
come:
  %tx_bits = and i64 %new_tx, {tx_mask}
  %tx_up = shl i64 %tx_bits, {TX_SHIFT}
  %expected_up = shl i64 %expected, {EXPECTED_SHIFT}
  %phase_up = shl i64 %phase, {PHASE_SHIFT}
  %t0 = or i64 %pending, %expected_up
  %t1 = or i64 %t0, %tx_up
  %t2 = or i64 %t1, %phase_up
  %t3 = or i64 %t2, {_SIGNED_MARK}
  store i64 %t3, ptr %token, align 8
  %coming = select i1 %arrives, i64 %value, i64 0
  %zero = icmp eq i64 %coming, 0
  %nobody = and i1 %zero, %arrives
  %crowd = icmp ugt i64 %coming, %pending
  %misfit = or i1 %nobody, %crowd
  %rest_pending = sub i64 %pending, %coming
  %empty = icmp eq i64 %rest_pending, 0
  %quiet = icmp eq i64 %new_tx, 0
  %flips = and i1 %empty, %quiet
  %last = and i1 %flips, %arrives
  %must_not = xor i1 %completes, true
  %ends = and i1 %last, %must_not
  %refused = or i1 %misfit, %ends
  br i1 %refused, label %no, label %put
put:
  %fewer = sub i64 %expected, %coming
  %later = select i1 %drops, i64 %fewer, i64 %expected
  %now = select i1 %flips, i64 %later, i64 %rest_pending
  %flip = zext i1 %flips to i64
  %turned = xor i64 %phase, %flip
  %later_up = shl i64 %later, {EXPECTED_SHIFT}
  %turned_up = shl i64 %turned, {PHASE_SHIFT}
  %w0 = or i64 %now, %later_up
  %w1 = or i64 %w0, %tx_up
  %w2 = or i64 %w1, %turned_up
  %w3 = or i64 %w2, {_SIGNED_MARK}
  store i64 %w3, ptr %at, align 8
  %lands = and i1 %flips, %busy
  br i1 %lands, label %land, label %yes
land:
  call void @land(ptr %context, i64 %place)
  ret i1 true
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i1 @barrier_act(ptr %context, ptr %places, ptr %first, ptr %second, ptr %tokens,
    i32 %mask, i32 %action, i1 %drops, i1 %completes) noinline {{
entry:
  br label %turn
turn:
  %rest = phi i32 [ %mask, %entry ], [ %next, %work ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %end, label %go
go:
{_LANE}
  %second_at = getelementptr i64, ptr %second, i32 %lane
  %tx = load i64, ptr %second_at, align 8
  %token = getelementptr i64, ptr %tokens, i32 %lane
  %done = call i1 @barrier_one(ptr %context, i64 %place, i64 %value, i64 %tx, ptr %token,
    i32 %action, i1 %drops, i1 %completes)
  br i1 %done, label %work, label %failed
work:
{_NEXT}
  br label %turn
failed:
  ret i1 false
end:
  ret i1 true
}}

; The lanes of a mask whose phase (i64 each) is over, or -1.
define internal i64 @barrier_wait(ptr %context, ptr %places, ptr %first, i32 %mask) noinline {{
entry:
  br label %turn
turn:
  %rest = phi i32 [ %mask, %entry ], [ %next, %work ]
  %found = phi i64 [ 0, %entry ], [ %more, %work ]
  %last_place = phi i64 [ -1, %entry ], [ %place, %work ]
  %last_phase = phi i64 [ -1, %entry ], [ %value, %work ]
  %last_over = phi i64 [ 0, %entry ], [ %over, %work ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %end, label %go
go:
{_LANE}
  %there = icmp eq i64 %place, %last_place
  %then = icmp eq i64 %value, %last_phase
  %again = and i1 %there, %then
  br i1 %again, label %work, label %look
look:
{_STATE}
  br i1 %is_barrier, label %known, label %failed
known:
  %phases = lshr i64 %old, {PHASE_SHIFT}
  %phase = and i64 %phases, 1
  %is_over = icmp ne i64 %phase, %value
  %is_idle = xor i1 %busy, true
  %certain = or i1 %is_over, %is_idle
  %is_one = zext i1 %is_over to i64
  br i1 %certain, label %work, label %ask
ask:
  %told = call i64 @settle(ptr %context, i64 %place, i64 %value)
  %bad = icmp slt i64 %told, 0
  br i1 %bad, label %failed, label %work
work:
  %over = phi i64 [ %last_over, %go ], [ %is_one, %known ], [ %told, %ask ]
  %wide = zext i32 %lane to i64
  %bit = shl i64 %over, %wide
  %more = or i64 %found, %bit
{_NEXT}
  br label %turn
failed:
  ret i64 -1
end:
  ret i64 %found
}}
"""
