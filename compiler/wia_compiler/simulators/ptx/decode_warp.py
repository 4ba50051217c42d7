"""Steps of instructions in which the threads of a warp see one another's values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.machine import Machine, Step
from wia_compiler.simulators.ptx.operands import Scope, reader, writer, writers
from wia_compiler.simulators.ptx.syntax import Operand
from wia_compiler.simulators.ptx.threads import WARP, Array
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.floats import FLOATS
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U32, PREDICATE = TYPES["u32"], TYPES["pred"]
_LANES = np.arange(WARP)
_BIT = (np.uint32(1) << np.arange(WARP, dtype=np.uint32)).astype(np.uint32)


def _rows(value: Array, count: int) -> Array:
    return np.broadcast_to(value, (count,)).reshape(-1, WARP)


def _named(members: Array) -> Array:
    """For each thread, which lanes its member mask names: (warps, lanes, lanes)."""
    return (members[:, :, None] & _BIT) != 0


def decode_shuffle(form: Form, scope: Scope) -> Step:
    """``shfl.sync``: the value of another lane; a lane that takes no part has none to give."""
    instruction = form.instruction
    mode = form.one_of(("up", "down", "bfly", "idx"))
    if "sync" not in form.flags or not mode:
        raise UnknownForm(f"{instruction.name}: only shfl.sync is simulated")
    puts = writers(instruction.operands[0], (U32, PREDICATE), scope)
    value, amount, clamp = (reader(each, U32, scope) for each in instruction.operands[1:4])

    def step(machine: Machine) -> None:
        threads = machine.threads
        count = threads.count
        a = _rows(value(threads), count)
        b = _rows(amount(threads), count).astype(np.int64) & 31
        c = _rows(clamp(threads), count).astype(np.int64)
        segment, limit = (c >> 8) & 31, c & 31
        lane = _LANES
        most = (lane & segment) | (limit & ~segment)
        least = lane & segment
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
                source = least | (b & ~segment)
                inside = source <= most
        source = np.where(inside, source, lane)
        active = threads.warps(threads.mask)
        given = np.take_along_axis(active, source, axis=1)
        missing = active & ~given
        if missing.any():
            warp, at = np.argwhere(missing)[0]
            machine.fault(
                instruction,
                f"{machine.thread_name(int(warp * WARP + at))} reads lane {source[warp, at]}, "
                "which takes no part: its value is undefined",
            )
        puts[0](threads, np.take_along_axis(a, source, axis=1).reshape(-1))
        if len(puts) > 1:
            puts[1](threads, inside.reshape(-1))

    return step


def decode_vote(form: Form, scope: Scope) -> Step:
    """``vote.sync``: all, any, uni or ballot of a predicate over the member mask."""
    instruction = form.instruction
    mode = form.one_of(("all", "any", "uni", "ballot"))
    if "sync" not in form.flags or not mode:
        raise UnknownForm(f"{instruction.name}: only vote.sync is simulated")
    result = U32 if mode == "ballot" else PREDICATE
    put = writer(instruction.operands[0], result, scope)
    asked = reader(instruction.operands[1], PREDICATE, scope)
    members = _member_reader(instruction.operands[2], scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        yes = _rows(asked(threads), threads.count) & threads.warps(threads.mask)
        named = _named(members(machine)) & threads.warps(threads.mask)[:, None, :]
        holds = named & yes[:, None, :]
        match mode:
            case "ballot":
                made = (holds * _BIT).sum(axis=2).astype(np.uint32)
            case "any":
                made = holds.any(axis=2)
            case "all":
                made = (holds == named).all(axis=2)
            case _:
                made = (holds == named).all(axis=2) | ~holds.any(axis=2)
        put(threads, made.reshape(-1))

    return step


def decode_match(form: Form, scope: Scope) -> Step:
    """``match.any`` and ``match.all``: the lanes that hold the same value."""
    instruction = form.instruction
    every = "all" in form.flags
    puts = writers(instruction.operands[0], (U32, PREDICATE), scope)
    value = reader(instruction.operands[1], form.type, scope)
    members = _member_reader(instruction.operands[2], scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        rows = _rows(value(threads), threads.count)
        named = _named(members(machine)) & threads.warps(threads.mask)[:, None, :]
        same = (rows[:, :, None] == rows[:, None, :]) & named
        mask = (same * _BIT).sum(axis=2).astype(np.uint32)
        if every:
            whole = (same == named).all(axis=2)
            puts[0](threads, np.where(whole, mask, np.uint32(0)).reshape(-1))
            if len(puts) > 1:
                puts[1](threads, whole.reshape(-1))
        else:
            puts[0](threads, mask.reshape(-1))

    return step


_FOLDS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def fold_of(form: Form) -> tuple[Callable[..., Any], int | float]:
    """What ``redux`` makes of two values, and a value that changes no other."""
    type, operation = form.type, form.one_of(tuple(_FOLDS))
    if type.name == "f32" and operation in ("min", "max"):
        compute = FLOATS[operation].compute
        beyond = np.inf if operation == "min" else 0.0 if "abs" in form.flags else -np.inf
        # Without .NaN, a number wins over NaN.
        neutral = beyond if "NaN" in form.flags else np.nan
        return functools.partial(compute, form), neutral
    if type.kind == "float" or not operation:
        raise UnknownForm(form.instruction.name)
    limits = np.iinfo(type.value)
    whole = {"min": int(limits.max), "max": int(limits.min), "and": -1}
    return _FOLDS[operation], whole.get(operation, 0)


def decode_fold(form: Form, scope: Scope) -> Step:
    """``redux.sync``: a fold of an integer over the member mask, for all of its lanes."""
    instruction, type = form.instruction, form.type
    fold, neutral = fold_of(form)
    put = writer(instruction.operands[0], type, scope)
    value = reader(instruction.operands[1], type, scope)
    members = _member_reader(instruction.operands[2], scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        rows = _rows(value(threads), threads.count)
        named = _named(members(machine)) & threads.warps(threads.mask)[:, None, :]
        rest = np.array(neutral).astype(type.value)
        chosen = np.where(named, rows[:, None, :], rest)
        made = fold(chosen[:, :, 0], chosen[:, :, 0]) if type.kind == "float" else chosen[:, :, 0]
        for lane in range(1, WARP):
            made = fold(made, chosen[:, :, lane])
        put(threads, made.reshape(-1))

    return step


def decode_active_mask(form: Form, scope: Scope) -> Step:
    """``activemask``: the lanes that execute this with the thread."""
    put = writer(form.instruction.operands[0], U32, scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        active = threads.warps(threads.mask)
        mask = (active * _BIT).sum(axis=1).astype(np.uint32)
        put(threads, np.repeat(mask, WARP))

    return step


def decode_elect(form: Form, scope: Scope) -> Step:
    """``elect.sync``: the lowest lane of the member mask is told so."""
    puts = writers(form.instruction.operands[0], (U32, PREDICATE), scope)
    members = _member_reader(form.instruction.operands[1], scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        named = _named(members(machine)) & threads.warps(threads.mask)[:, None, :]
        leader = named.argmax(axis=2)
        puts[0](threads, leader.astype(np.uint32).reshape(-1))
        if len(puts) > 1:
            puts[1](threads, (leader == _LANES).reshape(-1))

    return step


def _member_reader(operand: Operand, scope: Scope) -> Callable[[Machine], Array]:
    read = reader(operand, U32, scope)
    return lambda machine: _rows(read(machine.threads), machine.threads.count)
