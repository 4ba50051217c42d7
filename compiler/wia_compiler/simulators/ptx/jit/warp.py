"""Instructions in which the lanes of a warp see one another's values."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.decode_warp import fold_of
from wia_compiler.simulators.ptx.jit.access import bail_if
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import BOOL, converted, selected
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.syntax import Operand, Pair
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U32, PREDICATE = TYPES["u32"], TYPES["pred"]


def active_bits(lanes: Lanes) -> str:
    """The lanes that run the instruction, as an i32."""
    active = lanes.active()
    return "-1" if active is None else mask_bits(lanes.function, active)


def _spread_bits(function: Function, bits: str) -> Value:
    return function.spread(bits, U32.value)


def permuted(function: Function, value: Value, source: Value) -> Value:
    """Each lane's value taken from another lane."""
    width = function.width
    for number, row in enumerate(value.parts):
        place = function.new(f"getelementptr i32, ptr %exchange, i64 {number * width}")
        function.emit(f"store <{width} x i32> {row}, ptr {place}, align 4")
    text = f"getelementptr i32, ptr %exchange, <{width} x i32> {{0}}"
    pointers = function.each(U32.value, text, source)
    name = f"llvm.masked.gather.v{width}i32.v{width}p0"
    type = function.vector(U32.value)
    function.declare(name, f"declare {type} @{name}(<{width} x ptr>, <{width} x i1>, {type})")
    call = (
        f"call {type} @{name}(<{width} x ptr> align 4 {{0}}, <{width} x i1> splat (i1 true), "
        f"{type} zeroinitializer)"
    )
    return function.each(U32.value, call, pointers)


def write_shuffle(lanes: Lanes, form: Form) -> None:
    """``shfl.sync``: the value of another lane; a lane that takes no part bails."""
    mode = form.one_of(("up", "down", "bfly", "idx"))
    if "sync" not in form.flags or not mode:
        raise UnknownForm(f"{form.instruction.name}: only shfl.sync is simulated")
    function = lanes.function
    target, *operands = form.instruction.operands
    a = lanes.read(operands[0], U32)
    b, c = (lanes.traced(each, TYPES["s32"]) for each in operands[1:3])
    lane = Traced(function, function.lane_numbers(np.dtype(np.int32)))
    b = b & np.int32(31)
    segment, limit = (c >> np.int32(8)) & np.int32(31), c & np.int32(31)
    most = (lane & segment) | (limit & ~segment)
    match mode:
        case "up":
            source = lane - b
            inside = source >= most
        case "down":
            source = lane + b
            inside = source <= most
        case "bfly":
            source = lane ^ b
            inside = source <= most
        case _:
            source = (lane & segment) | (b & ~segment)
            inside = source <= most
    chosen = selected(function, inside.value, source.value, lane.value)
    place = converted(function, chosen, U32.value)
    active = active_bits(lanes)
    if active != "-1":
        _bail_if_missing(function, place, active)
    results = (target.first, target.second) if isinstance(target, Pair) else (target,)
    lanes.write(results[0], U32, permuted(function, a, place))
    if len(results) > 1:
        lanes.write(results[1], PREDICATE, inside.value)


def _bail_if_missing(function: Function, source: Value, active: str) -> None:
    """A lane that runs must not read one that does not."""
    type = function.vector(U32.value)
    bits = _spread_bits(function, active)
    moved = function.each(U32.value, f"lshr {type} {{0}}, {{1}}", bits, source)
    one = function.splat(1, U32.value)
    given = function.each(U32.value, f"and {type} {{0}}, {{1}}", moved, one)
    absent = function.each(BOOL, f"icmp eq {type} {{0}}, splat (i32 0)", given)
    missing = function.new(f"and i32 {mask_bits(function, absent)}, {active}")
    bail_if(function, function.new(f"icmp ne i32 {missing}, 0"))


def write_vote(lanes: Lanes, form: Form) -> None:
    """``vote.sync``: all, any, uni or ballot of a predicate over the member mask."""
    mode = form.one_of(("all", "any", "uni", "ballot"))
    if "sync" not in form.flags or not mode:
        raise UnknownForm(f"{form.instruction.name}: only vote.sync is simulated")
    function = lanes.function
    target, asked, members = form.instruction.operands
    active = active_bits(lanes)
    yes = mask_bits(function, lanes.read(asked, PREDICATE))
    holding = function.new(f"and i32 {yes}, {active}")
    named = _and(function, lanes.read(members, U32), _spread_bits(function, active))
    holds = _and(function, named, _spread_bits(function, holding))
    type = function.vector(U32.value)
    if mode == "ballot":
        lanes.write(target, U32, holds)
        return
    every = function.each(BOOL, f"icmp eq {type} {{0}}, {{1}}", holds, named)
    some = function.each(BOOL, f"icmp ne {type} {{0}}, splat (i32 0)", holds)
    if mode == "uni":
        text = f"xor {function.vector(BOOL)} {{0}}, splat (i1 true)"
        none = function.each(BOOL, text, some)
        every = function.each(BOOL, f"or {function.vector(BOOL)} {{0}}, {{1}}", every, none)
    lanes.write(target, PREDICATE, some if mode == "any" else every)


def _and(function: Function, a: Value, b: Value) -> Value:
    return function.each(U32.value, f"and {function.vector(U32.value)} {{0}}, {{1}}", a, b)


def write_match(lanes: Lanes, form: Form) -> None:
    """``match.any`` and ``match.all``: the lanes that hold the same value."""
    function, type = lanes.function, form.type
    target, operand, members = form.instruction.operands
    value = lanes.read(operand, type)
    active = active_bits(lanes)
    named = _and(function, lanes.read(members, U32), _spread_bits(function, active))
    mask = function.splat(0, U32.value)
    for lane in range(32):
        same = _equal_to_lane(function, value, lane)
        bit = function.splat(1 << lane, U32.value)
        held = selected(function, same, bit, function.splat(0, U32.value))
        text = f"or {function.vector(U32.value)} {{0}}, {{1}}"
        mask = function.each(U32.value, text, mask, held)
    mask = _and(function, mask, named)
    targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
    if "all" not in form.flags:
        lanes.write(targets[0], U32, mask)
        return
    text = f"icmp eq {function.vector(U32.value)} {{0}}, {{1}}"
    whole = function.each(BOOL, text, mask, named)
    lanes.write(targets[0], U32, selected(function, whole, mask, function.splat(0, U32.value)))
    if len(targets) > 1:
        lanes.write(targets[1], PREDICATE, whole)


def _of_lane(function: Function, value: Value, lane: int) -> Value:
    """The value of one lane in all of them."""
    part, place = divmod(lane, function.width)
    type = function.vector(value.dtype)
    scalar = function.new(f"extractelement {type} {value.parts[part]}, i64 {place}")
    return function.spread(scalar, value.dtype)


def _equal_to_lane(function: Function, value: Value, lane: int) -> Value:
    text = f"icmp eq {function.vector(value.dtype)} {{0}}, {{1}}"
    return function.each(BOOL, text, value, _of_lane(function, value, lane))


def write_elect(lanes: Lanes, form: Form) -> None:
    """``elect.sync``: the lowest lane of the member mask is told so."""
    function = lanes.function
    target, members = form.instruction.operands
    named = _and(function, lanes.read(members, U32), _spread_bits(function, active_bits(lanes)))
    type = function.vector(U32.value)
    name = f"llvm.cttz.v{function.width}i32"
    function.declare(name, f"declare {type} @{name}({type}, i1)")
    leader = function.each(U32.value, f"call {type} @{name}({type} {{0}}, i1 true)", named)
    results = (target.first, target.second) if isinstance(target, Pair) else (target,)
    lanes.write(results[0], U32, leader)
    if len(results) > 1:
        mine = function.lane_numbers(U32.value)
        chosen = function.each(BOOL, f"icmp eq {type} {{0}}, {{1}}", leader, mine)
        lanes.write(results[1], PREDICATE, chosen)


def write_map(lanes: Lanes, form: Form) -> None:
    """``mapa``: the same address, in a cluster of one block; bail for any other block."""
    function, type = lanes.function, form.type
    target, address, rank = form.instruction.operands
    value = lanes.read(rank, U32)
    text = f"icmp ne {function.vector(U32.value)} {{0}}, splat (i32 0)"
    others = mask_bits(function, function.each(BOOL, text, value))
    others = function.new(f"and i32 {others}, {active_bits(lanes)}")
    bail_if(function, function.new(f"icmp ne i32 {others}, 0"))
    lanes.write(target, type, lanes.read(address, type))


def write_rank(lanes: Lanes, form: Form) -> None:
    """``getctarank``: there is one block in a cluster."""
    lanes.write(form.instruction.operands[0], U32, lanes.function.splat(0, U32.value))


def write_fold(lanes: Lanes, form: Form) -> None:
    """``redux.sync``: a fold of an integer over the member mask, for all of its lanes."""
    type = form.type
    fold, neutral = fold_of(form)
    function = lanes.function
    target, operand, members = form.instruction.operands
    value = lanes.read(operand, type)
    rest = function.splat(np.array(neutral).astype(type.value)[()], type.value)
    named = _and(function, lanes.read(members, U32), _spread_bits(function, active_bits(lanes)))
    total: Any = None
    for lane in range(32):
        bit = _and(function, named, function.splat(1 << lane, U32.value))
        text = f"icmp ne {function.vector(U32.value)} {{0}}, splat (i32 0)"
        here = function.each(BOOL, text, bit)
        chosen = Traced(function, selected(function, here, _of_lane(function, value, lane), rest))
        if total is None:
            total = fold(chosen, chosen) if type.kind == "float" else chosen
            continue
        total = fold(total, chosen)
    lanes.write(target, type, total.value)


def write_active_mask(lanes: Lanes, form: Form) -> None:
    """``activemask``: the lanes that execute this with the thread."""
    bits = active_bits(lanes)
    function = lanes.function
    value = function.splat(0xFFFFFFFF, U32.value) if bits == "-1" else _spread_bits(function, bits)
    lanes.write(form.instruction.operands[0], U32, value)


def gathered(lanes: Lanes, members: Operand, alive: str) -> None:
    """Bail unless all living lanes that a member mask names are here."""
    if lanes.mask is not None:
        waiting = waiting_lanes(lanes, members, alive)
        bail_if(lanes.function, lanes.function.new(f"icmp ne i32 {waiting}, 0"))


def waiting_lanes(lanes: Lanes, members: Operand, alive: str) -> str:
    """The lanes that run and whose member mask names living lanes that are elsewhere (i32)."""
    function = lanes.function
    assert lanes.mask is not None
    value = lanes.read(members, U32)
    here = mask_bits(function, lanes.mask)
    others = function.new(f"xor i32 {here}, -1")
    absent = function.new(f"and i32 {others}, {alive}")
    wanted = _and(function, value, _spread_bits(function, absent))
    text = f"icmp ne {function.vector(U32.value)} {{0}}, splat (i32 0)"
    missing = mask_bits(function, function.each(BOOL, text, wanted))
    return function.new(f"and i32 {missing}, {here}")
