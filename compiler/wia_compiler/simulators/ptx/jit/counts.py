"""What an access counts for: in closed form where lanes follow one another, else by ``support``."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.jit.access import Access, Window
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import converted
from wia_compiler.simulators.ptx.jit.lanes import mask_bits
from wia_compiler.simulators.ptx.jit.layout import TRAFFIC_WORDS
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.threads import WARP

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)


def _slot(function: Function, access: Access) -> str:
    traffic = word(function, "traffic", "ptr")
    return function.new(
        f"getelementptr i8, ptr {traffic}, i64 {8 * TRAFFIC_WORDS * (access.slot or 0)}"
    )


def add_to(function: Function, place: str, number: int, amount: str) -> None:
    """Add to one of the numbers at a place."""
    at = function.new(f"getelementptr i64, ptr {place}, i64 {number}")
    old = function.new(f"load i64, ptr {at}, align 8")
    new = function.new(f"add i64 {old}, {amount}")
    function.emit(f"store i64 {new}, ptr {at}, align 8")


def count_run(function: Function, access: Access, first: str) -> None:
    """A contiguous access of a whole warp, in closed form."""
    if access.slot is None:
        return
    slot = _slot(function, access)
    add_to(function, slot, 0, "1")
    if access.space == "shared":
        phases = max(1, access.size // 4)
        add_to(function, slot, 3, str(phases))
        add_to(function, slot, 4, str(phases))
        return
    low = function.new(f"and i64 {first}, 31")
    end = function.new(f"add i64 {low}, {WARP * access.size + 31}")
    add_to(function, slot, 1, function.new(f"lshr i64 {end}, 5"))
    add_to(function, slot, 2, str(access.size))


def count_lanes(function: Function, access: Access, window: Window, active: Value | None) -> None:
    """Any access, by the rules of ``counting``."""
    if access.slot is None:
        return
    bits = "-1" if active is None else mask_bits(function, active)
    shift = 2 if access.space == "shared" else 5
    type = function.vector(U64)
    units = function.each(
        U64, f"lshr {type} {{0}}, {{1}}", window.offset, function.splat(shift, U64)
    )
    narrow = converted(function, units, U32)
    width = function.width
    for part, each in enumerate(narrow.parts):
        place = function.new(f"getelementptr i32, ptr %units, i64 {part * width}")
        function.emit(f"store <{width} x i32> {each}, ptr {place}, align 4")
    slot = _slot(function, access)
    if access.space == "shared":
        words = max(1, access.size // 4)
        function.emit(f"call void @count_wavefronts_{words}(ptr {slot}, ptr %units, i32 {bits})")
    else:
        size = access.size
        function.emit(f"call void @count_sectors(ptr {slot}, ptr %units, i32 {bits}, i64 {size})")
