"""``cp.async`` and its groups: bytes that arrive when the warp waits for them.

Until then the bytes they go to are all ones, as on the other engine. All lanes of a warp open and
close groups together here; where they do not, the launch bails.
"""

from __future__ import annotations

import numpy as np

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
)
from wia_compiler.simulators.ptx.jit.memory import Slots
from wia_compiler.simulators.ptx.jit.named import only_whole_warps
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.syntax import Immediate
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U32, U64, I32 = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int32)
_ADDRESSES, _CONTENT = 16, 16 + 4 * WARP
"""Where a copy's parts lie."""


def write_copy(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``cp.async``, ``commit_group``, ``wait_group`` and ``wait_all``."""
    flags = form.flags
    if flags & {"commit_group", "wait_group", "wait_all"}:
        _write_group(lanes, form)
        return
    if "async" not in flags or not flags & {"ca", "cg"} or "mbarrier" in flags:
        raise UnknownForm(form.instruction.name)
    target, source, size, *rest = form.instruction.operands
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        raise UnknownForm(f"{form.instruction.name} of a size other than 4, 8 or 16")
    size_bytes = int(size.value)
    function, active = lanes.function, lanes.active()
    given = lanes.read(rest[0], TYPES["u32"]) if rest else None
    content = _content(lanes, slots, address_of(lanes, source), size_bytes, given, active)
    access = Access("shared", size_bytes, size_bytes, slots.get("shared"))
    window = window_of(lanes, access, address_of(lanes, target))
    check_lanes(function, access, window, active)
    count_lanes(function, access, window, active)
    ones = [function.splat(0xFFFFFFFF, U32)] * (size_bytes // 4)
    scatter(function, window, active, ones)
    _note(lanes, window, content, active)


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
    return f"""
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
