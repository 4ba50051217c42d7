"""``cp.async`` and its groups: bytes that arrive when the warp waits for them.

Until then the bytes they go to are all ones, as on the other engine. All lanes of a warp open and
close groups together here; where they do not, the launch bails.
"""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.decode_mbarrier import copy_arrival
from wia_compiler.simulators.ptx.jit.access import (
    Access,
    Window,
    address_of,
    bail_if,
    check_lanes,
    gather,
    scatter,
    window_of,
)
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import BOOL, converted, selected
from wia_compiler.simulators.ptx.jit.counts import count_lanes
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.layout import (
    COPIES_BYTES,
    COPY_BYTES,
    MOST_COPIES,
    word_offset,
)
from wia_compiler.simulators.ptx.jit.mbarrier import keep, shared_places
from wia_compiler.simulators.ptx.jit.memory import Slots
from wia_compiler.simulators.ptx.jit.named import only_whole_warps
from wia_compiler.simulators.ptx.jit.specials import first_thread, word
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.jit.warp import active_bits
from wia_compiler.simulators.ptx.mbarrier import BARRIER_BYTES, MOST_COUNT
from wia_compiler.simulators.ptx.operands import is_predicate
from wia_compiler.simulators.ptx.syntax import Immediate, Operand
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U32, U64, I32 = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int32)
_ADDRESSES, _CONTENT = 16, 16 + 4 * WARP
_NUMBER = COPY_BYTES - 8
"""Where a copy's parts lie."""


def write_copy(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``cp.async``, ``commit_group``, ``wait_group`` and ``wait_all``."""
    flags = form.flags
    if flags & {"commit_group", "wait_group", "wait_all"}:
        _write_group(lanes, form)
        return
    if "mbarrier" in flags:
        write_copy_arrival(lanes, form)
        return
    if "async" not in flags or not flags & {"ca", "cg"}:
        raise UnknownForm(form.instruction.name)
    target, source, size, *rest = form.instruction.operands
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        raise UnknownForm(f"{form.instruction.name} of a size other than 4, 8 or 16")
    size_bytes = int(size.value)
    function, active = lanes.function, lanes.active()
    given = _given(lanes, rest[0], size_bytes) if rest else None
    content = _content(lanes, slots, address_of(lanes, source), size_bytes, given, active)
    access = Access("shared", size_bytes, size_bytes, slots.get("shared"))
    window = window_of(lanes, access, address_of(lanes, target))
    check_lanes(function, access, window, active)
    count_lanes(function, access, window, active)
    ones = [function.splat(0xFFFFFFFF, U32)] * (size_bytes // 4)
    scatter(function, window, active, ones)
    _note(lanes, window, content, active)


def _given(lanes: Lanes, operand: Operand, size: int) -> Value:
    """The bytes that are copied: a number, or a predicate under which there are none."""
    if not is_predicate(operand, lanes.scope):
        return lanes.read(operand, TYPES["u32"])
    function = lanes.function
    ignored = lanes.read(operand, TYPES["pred"])
    return selected(function, ignored, function.splat(0, U32), function.splat(size, U32))


def _content(
    lanes: Lanes, slots: Slots, address: Value, size: int, given: Value | None,
    active: Value | None,
) -> list[Value]:  # fmt: skip
    """What is copied, as words: 0 past the bytes that are given."""
    function = lanes.function
    reads = active
    if given is not None:
        none = function.splat(0, U32)
        some = function.each(BOOL, f"icmp ne {function.vector(U32)} {{0}}, {{1}}", given, none)
        bits = function.vector(BOOL)
        reads = some if active is None else function.each(
            BOOL, f"and {bits} {{0}}, {{1}}", some, active
        )  # fmt: skip
    access = Access("global", size, 1, slots.get("global"))
    window = window_of(lanes, access, address)
    check_lanes(function, access, window, reads)
    count_lanes(function, access, window, reads)
    words = [gather(function, window, reads, U32, number) for number in range(size // 4)]
    if given is None:
        return words
    return [_cut(function, each, given, 4 * number) for number, each in enumerate(words)]


def _cut(function: Function, value: Value, given: Value, before: int) -> Value:
    """A word with only those bytes that are given of it and of the ``before`` ones."""
    left = Traced(function, given).astype(np.int32) - np.int32(before)
    kept = np.minimum(np.maximum(left, np.int32(0)), np.int32(4))
    bits = (kept * np.int32(8)).astype(np.uint64)
    mask = ((np.uint64(1) << bits) - np.uint64(1)).astype(np.uint32)
    return (Traced(function, value) & mask).value


def _own(lanes: Lanes) -> str:
    """The copies of this warp."""
    function = lanes.function
    place = function.new(f"getelementptr i8, ptr %warp, i64 {lanes.layout.first_thread}")
    first = function.new(f"load i32, ptr {place}, align 4")
    number = function.new(f"lshr i32 {first}, 5")
    wide = function.new(f"zext i32 {number} to i64")
    offset = function.new(f"mul i64 {wide}, {COPIES_BYTES}")
    return function.new(f"getelementptr i8, ptr {word(function, 'copies', 'ptr')}, i64 {offset}")


def _note(lanes: Lanes, window: Window, content: list[Value], active: Value | None) -> None:
    """Put a copy behind those on their way."""
    function, width = lanes.function, lanes.function.width
    own = _own(lanes)
    place = function.new(f"getelementptr i64, ptr {own}, i64 1")
    count = function.new(f"load i64, ptr {place}, align 8")
    bail_if(function, function.new(f"icmp uge i64 {count}, {MOST_COPIES}"))
    function.emit(f"store i64 {function.new(f'add i64 {count}, 1')}, ptr {place}, align 8")
    offset = function.new(f"mul i64 {count}, {COPY_BYTES}")
    start = function.new(f"add i64 {offset}, 64")
    copy = function.new(f"getelementptr i8, ptr {own}, i64 {start}")
    group = function.new(f"load i64, ptr {own}, align 8")
    function.emit(f"store i64 {group}, ptr {copy}, align 8")
    begun_at = function.new(f"getelementptr i64, ptr {own}, i64 2")
    begun = function.new(f"load i64, ptr {begun_at}, align 8")
    function.emit(f"store i64 {function.new(f'add i64 {begun}, 1')}, ptr {begun_at}, align 8")
    number = function.new(f"getelementptr i8, ptr {copy}, i64 {_NUMBER}")
    function.emit(f"store i64 {begun}, ptr {number}, align 8")
    size = function.new(f"getelementptr i64, ptr {copy}, i64 1")
    function.emit(f"store i64 {4 * len(content)}, ptr {size}, align 8")
    targets = converted(function, window.offset, U32)
    if active is not None:
        targets = selected(function, active, targets, function.splat(0xFFFFFFFF, U32))
    rows = [(_ADDRESSES, targets)]
    rows += [(_CONTENT + 4 * WARP * number, each) for number, each in enumerate(content)]
    for begin, value in rows:
        for part, each in enumerate(value.parts):
            to = function.new(f"getelementptr i8, ptr {copy}, i64 {begin + 4 * part * width}")
            function.emit(f"store <{width} x i32> {each}, ptr {to}, align 4")


def write_copy_arrival(lanes: Lanes, form: Form) -> None:
    """``cp.async.mbarrier.arrive``: an arrival once the copies of a thread until here have come."""
    increases = copy_arrival(form)
    function = lanes.function
    (operand,) = form.instruction.operands
    keep(function, "places", shared_places(lanes, form, operand, BARRIER_BYTES))
    first = function.new(f"zext i32 {first_thread(function, lanes.layout)} to i64")
    own = _own(lanes)
    done = function.new(
        f"call i1 @copies_arrive(ptr %context, ptr %places, ptr {own}, i64 {first}, "
        f"i32 {active_bits(lanes)}, i1 {str(increases).lower()})"
    )
    bail_if(function, function.new(f"xor i1 {done}, true"))


def _write_group(lanes: Lanes, form: Form) -> None:
    function = lanes.function
    if lanes.predicate is not None:
        bail_if(function, "true")
    elif lanes.mask is not None:
        # Lanes that count their groups apart are left to the other engine.
        only_whole_warps(function, mask_bits(function, lanes.mask))
    left = 0
    if "wait_group" in form.flags:
        (operand,) = form.instruction.operands
        if not isinstance(operand, Immediate):
            raise UnknownForm(f"{form.instruction.name} of a computed number")
        left = int(operand.value)
    own = _own(lanes)
    if "wait_group" not in form.flags:
        group = function.new(f"load i64, ptr {own}, align 8")
        function.emit(f"store i64 {function.new(f'add i64 {group}, 1')}, ptr {own}, align 8")
    if "commit_group" not in form.flags:
        shared = word(function, "shared", "ptr")
        function.emit(f"call void @arrive(ptr {own}, ptr {shared}, i64 {left})")


def copies_text() -> str:
    """``@arrive``: finish the copies of all closed groups of a warp but the newest."""
    words = "\n".join(
        f"""  %word{number}_at = getelementptr [{WARP} x i32], ptr %content, i64 {number}, i64 %lane
  %word{number} = load i32, ptr %word{number}_at, align 4
  %to{number} = getelementptr i32, ptr %target, i64 {number}
  store i32 %word{number}, ptr %to{number}, align 4
  %done{number} = icmp ule i64 %size, {4 * number + 4}
  br i1 %done{number}, label %next_lane, label %more{number}
more{number}:"""
        for number in range(4)
    )
    lane = "\n".join(
        f"""  %one{number}_at = getelementptr [{WARP} x i32], ptr %content, i64 {number}, i64 %lane
  %one{number} = load i32, ptr %one{number}_at, align 4
  %at{number} = getelementptr i32, ptr %target, i64 {number}
  store i32 %one{number}, ptr %at{number}, align 4
  %last{number} = icmp ule i64 %size, {4 * number + 4}
  br i1 %last{number}, label %over, label %further{number}
further{number}:"""
        for number in range(4)
    )
    return f"""
; Finish the copies of one lane of a warp that were begun before a number.
define internal void @arrive_lane(ptr %own, ptr %shared, i64 %lane, i64 %until) noinline {{
entry:
  %count_at = getelementptr i64, ptr %own, i64 1
  %count = load i64, ptr %count_at, align 8
  br label %copy
copy:
  %number = phi i64 [ 0, %entry ], [ %next, %over ]
  %all = icmp uge i64 %number, %count
  br i1 %all, label %end, label %look
look:
  %offset = mul i64 %number, {COPY_BYTES}
  %start = add i64 %offset, 64
  %at = getelementptr i8, ptr %own, i64 %start
  %number_at = getelementptr i8, ptr %at, i64 {_NUMBER}
  %own_number = load i64, ptr %number_at, align 8
  %early = icmp ult i64 %own_number, %until
  %targets = getelementptr i8, ptr %at, i64 {_ADDRESSES}
  %to_at = getelementptr i32, ptr %targets, i64 %lane
  %to = load i32, ptr %to_at, align 4
  %somewhere = icmp ne i32 %to, -1
  %goes = and i1 %early, %somewhere
  br i1 %goes, label %move, label %over
move:
  store i32 -1, ptr %to_at, align 4
  %size_at = getelementptr i64, ptr %at, i64 1
  %size = load i64, ptr %size_at, align 8
  %content = getelementptr i8, ptr %at, i64 {_CONTENT}
  %wide = zext i32 %to to i64
  %target = getelementptr i8, ptr %shared, i64 %wide
{lane}
  br label %over
over:
  %next = add i64 %number, 1
  br label %copy
end:
  ret void
}}

; For each lane of a mask, one arrival at its barrier once its copies until now have come.
define internal i1 @copies_arrive(ptr %context, ptr %places, ptr %own, i64 %thread, i32 %mask,
    i1 %increases) noinline {{
entry:
  %begun_at = getelementptr i64, ptr %own, i64 2
  %until = load i64, ptr %begun_at, align 8
  %shared_at = getelementptr i8, ptr %context, i64 {word_offset("shared")}
  %shared = load ptr, ptr %shared_at, align 8
  br label %turn
turn:
  %rest = phi i32 [ %mask, %entry ], [ %next, %done ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %end, label %go
go:
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %place_at = getelementptr i64, ptr %places, i32 %lane
  %place = load i64, ptr %place_at, align 8
  br i1 %increases, label %more, label %begin
more:
  %barrier = getelementptr i8, ptr %shared, i64 %place
  %word = load i64, ptr %barrier, align 8
  %pending = and i64 %word, {MOST_COUNT}
  %full = icmp eq i64 %pending, {MOST_COUNT}
  br i1 %full, label %no, label %raise
raise:
  %raised = add i64 %word, 1
  store i64 %raised, ptr %barrier, align 8
  br label %begin
begin:
  %wide = zext i32 %lane to i64
  %own_thread = add i64 %thread, %wide
  %fine = call i1 @begin_flight(ptr %context, i64 %place, i64 0, i64 0, i64 0, i64 1,
    i64 %own_thread, i64 %until)
  br i1 %fine, label %done, label %no
done:
  %less = sub i32 %rest, 1
  %next = and i32 %rest, %less
  br label %turn
end:
  ret i1 true
no:
  ret i1 false
}}

define internal void @arrive(ptr %own, ptr %shared, i64 %left) noinline {{
entry:
  %open = load i64, ptr %own, align 8
  %limit = sub i64 %open, %left
  %count_at = getelementptr i64, ptr %own, i64 1
  %count = load i64, ptr %count_at, align 8
  %first = getelementptr i8, ptr %own, i64 64
  br label %copy
copy:
  %number = phi i64 [ 0, %entry ], [ %next, %copied ]
  %over = icmp uge i64 %number, %count
  br i1 %over, label %finish, label %look
look:
  %offset = mul i64 %number, {COPY_BYTES}
  %at = getelementptr i8, ptr %first, i64 %offset
  %group = load i64, ptr %at, align 8
  %waits = icmp sge i64 %group, %limit
  br i1 %waits, label %finish, label %begin
begin:
  %size_at = getelementptr i64, ptr %at, i64 1
  %size = load i64, ptr %size_at, align 8
  %targets = getelementptr i8, ptr %at, i64 {_ADDRESSES}
  %content = getelementptr i8, ptr %at, i64 {_CONTENT}
  br label %each
each:
  %lane = phi i64 [ 0, %begin ], [ %lane_next, %next_lane ]
  %to_at = getelementptr i32, ptr %targets, i64 %lane
  %to = load i32, ptr %to_at, align 4
  %nowhere = icmp eq i32 %to, -1
  %wide = zext i32 %to to i64
  %target = getelementptr i8, ptr %shared, i64 %wide
  br i1 %nowhere, label %next_lane, label %move
move:
{words}
  br label %next_lane
next_lane:
  %lane_next = add i64 %lane, 1
  %lanes_over = icmp uge i64 %lane_next, {WARP}
  br i1 %lanes_over, label %copied, label %each
copied:
  %next = add i64 %number, 1
  br label %copy
finish:
  ; Groups close in order: what is left moves to the front.
  %left_over = sub i64 %count, %number
  store i64 %left_over, ptr %count_at, align 8
  %bytes = mul i64 %left_over, {COPY_BYTES}
  %begin_offset = mul i64 %number, {COPY_BYTES}
  %from = getelementptr i8, ptr %first, i64 %begin_offset
  call void @llvm.memmove.p0.p0.i64(ptr %first, ptr %from, i64 %bytes, i1 false)
  ret void
}}
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
