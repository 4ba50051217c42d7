"""What the machine gives: words of the context, coordinates, the numbers of lanes and warps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import converted
from wia_compiler.simulators.ptx.jit.layout import WarpLayout, word_offset
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.values.form import UnknownForm

if TYPE_CHECKING:
    from wia_compiler.simulators.ptx.jit.lanes import Lanes

U32 = np.dtype(np.uint32)
_FIXED = {
    **{"%smid": 0, "%nsmid": 1, "%gridid": 0},
    **{"%clock": 0, "%clock_hi": 0, "%clock64": 0},
    **{"%globaltimer": 0, "%globaltimer_lo": 0, "%globaltimer_hi": 0},
    **{"%cluster_ctarank": 0, "%cluster_nctarank": 1},
    **{f"%cluster_ctaid.{axis}": 0 for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": 1 for axis in "xyz"},
}
_FULL = 0xFFFFFFFF


def word(function: Function, name: str, type: str = "i64") -> str:
    """A word of the context."""
    place = function.new(f"getelementptr i8, ptr %context, i64 {word_offset(name)}")
    return function.new(f"load {type}, ptr {place}, align 8")


def lane_thread(function: Function, layout: WarpLayout, dtype: np.dtype[Any]) -> Value:
    """The number of each lane's thread in its block."""
    first = function.spread(first_thread(function, layout), U32)
    text = f"add {function.vector(dtype)} {{0}}, {{1}}"
    start = converted(function, first, dtype)
    return function.each(dtype, text, start, function.lane_numbers(dtype))


def first_thread(function: Function, layout: WarpLayout) -> str:
    """The number of the warp's first thread in its block, as an i32."""
    place = function.new(f"getelementptr i8, ptr %warp, i64 {layout.first_thread}")
    return function.new(f"load i32, ptr {place}, align 4")


def special_value(lanes: Lanes, name: str) -> Value:
    """A special register, as the other engine has it."""
    function, layout = lanes.function, lanes.layout
    dtype = lanes.scope.register(name).value
    if name == "%is_explicit_cluster":
        raise UnknownForm(f"{name}: how a launch was asked for")
    if name in _FIXED:
        return function.splat(_FIXED[name], dtype)
    if name == "%laneid":
        return function.lane_numbers(U32)
    if name.startswith("%lanemask_"):
        return _lane_mask(function, name.removeprefix("%lanemask_"))
    if name.startswith("%tid."):
        return _coordinates(function, layout.coordinates[name])
    if name == "%warpid":
        first = first_thread(function, layout)
        return function.spread(function.new(f"lshr i32 {first}, 5"), U32)
    sizes = {"%total_smem_size": "shared_bytes", "%dynamic_smem_size": "dynamic_bytes"}
    if name in sizes:
        size = function.new(f"trunc i64 {word(function, sizes[name])} to i32")
        return function.spread(size, U32)
    source = "warp_count" if name == "%nwarpid" else name[1:].replace("clusterid", "ctaid")
    return function.spread(function.new(f"trunc i64 {word(function, source)} to i32"), U32)


def _coordinates(function: Function, offset: int) -> Value:
    names: list[str] = []
    type = function.vector(U32)
    for part in range(function.parts):
        place = function.new(
            f"getelementptr i8, ptr %warp, i64 {offset + part * function.width * 4}"
        )
        names.append(function.new(f"load {type}, ptr {place}, align 4"))
    return Value(U32, tuple(names))


def _lane_mask(function: Function, word: str) -> Value:
    below = [(1 << lane) - 1 for lane in range(WARP)]
    equal = [1 << lane for lane in range(WARP)]
    masks = {
        "eq": equal,
        "lt": below,
        "le": [a | b for a, b in zip(below, equal, strict=True)],
        "gt": [_FULL & ~(a | b) for a, b in zip(below, equal, strict=True)],
        "ge": [_FULL & ~a for a in below],
    }[word]
    parts = [f"<{', '.join(f'i32 {masks[lane]}' for lane in lanes)}>" for lanes in function.lanes()]
    return Value(U32, tuple(parts))
