"""Instructions to steps: what the threads of a machine do when one is executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wia_compiler.base.errors import Diagnostic, TargetError
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.decode_async import decode_async
from wia_compiler.simulators.ptx.decode_cluster import (
    decode_cluster_barrier,
    decode_map,
    decode_rank,
)
from wia_compiler.simulators.ptx.decode_matrix import (
    decode_matrix_load,
    decode_matrix_move,
    decode_matrix_store,
)
from wia_compiler.simulators.ptx.decode_mbarrier import decode_mbarrier
from wia_compiler.simulators.ptx.decode_memory import (
    decode_address,
    decode_atomic,
    decode_load,
    decode_store,
)
from wia_compiler.simulators.ptx.decode_multiply import decode_multiply, matrix_flops
from wia_compiler.simulators.ptx.decode_warp import (
    decode_active_mask,
    decode_elect,
    decode_fold,
    decode_match,
    decode_shuffle,
    decode_vote,
)
from wia_compiler.simulators.ptx.decode_warpgroup import decode_warpgroup, warpgroup_product
from wia_compiler.simulators.ptx.decode_wmma import decode_fragment_load, decode_fragment_store
from wia_compiler.simulators.ptx.graph import BARRIERS, ENDINGS, gathers
from wia_compiler.simulators.ptx.jitter import approximation_of
from wia_compiler.simulators.ptx.machine import Machine, Step
from wia_compiler.simulators.ptx.operands import Scope, items_of, reader, writer, writers
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import Array
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.bit_fields import BIT_FIELDS
from wia_compiler.simulators.ptx.values.carry import carry_row
from wia_compiler.simulators.ptx.values.compare import COMPARISONS, PREDICATES
from wia_compiler.simulators.ptx.values.convert import CONVERSIONS
from wia_compiler.simulators.ptx.values.eighths import FORMATS, eighths_row
from wia_compiler.simulators.ptx.values.floats import FLOATS, MIXED
from wia_compiler.simulators.ptx.values.form import Form, Pipe, Row, UnknownForm
from wia_compiler.simulators.ptx.values.integers import INTEGERS
from wia_compiler.simulators.ptx.values.lanewise_integers import OTHERS, PACK
from wia_compiler.simulators.ptx.values.spaces import SPACES

IDLE = (
    "membar", "fence", "nanosleep", "prefetch", "prefetchu", "griddepcontrol", "pmevent",
    "applypriority", "discard", "setmaxnreg", "call",
)  # fmt: skip
"""What changes nothing in a machine that does one step after the other."""
FENCES = ("membar", "fence")
"""What orders memory; it has an order here already, which only the checks look at."""
_MEMORY: Mapping[str, Callable[[Form, int, Scope], Step]] = {
    "ld": decode_load,
    "ldu": decode_load,
    "st": decode_store,
    "atom": decode_atomic,
    "red": decode_atomic,
    "cp": decode_async,
    "ldmatrix": decode_matrix_load,
    "stmatrix": decode_matrix_store,
    "wmma.load": decode_fragment_load,
    "wmma.store": decode_fragment_store,
}
_WARP: Mapping[str, Callable[[Form, Scope], Step]] = {
    "shfl": decode_shuffle,
    "vote": decode_vote,
    "match": decode_match,
    "redux": decode_fold,
    "activemask": decode_active_mask,
    "elect": decode_elect,
    "movmatrix": decode_matrix_move,
    "mapa": decode_map,
    "getctarank": decode_rank,
}


@dataclass(frozen=True)
class Decoded:
    """One instruction: what it does (``None``: the scheduler does), its pipe and its FLOPs.

    ``flops`` are those of one thread, ``precision`` the type they are counted under.
    """

    instruction: Instruction
    step: Step | None
    pipe: Pipe
    flops: int = 0
    precision: str = ""


def decode(instruction: Instruction, number: int, scope: Scope, source: Source) -> Decoded:
    """The step of instruction ``number``; ``TargetError`` with its line where none is known."""
    try:
        return _decoded(Form(instruction), number, scope)
    except UnknownForm as unknown:
        message = f"not simulated: {unknown}"
        hint = "docs/ptx_simulator.md lists the instructions that are"
        diagnostic = Diagnostic(message, instruction.span, hint, source)
        raise TargetError(diagnostic.render()) from None


def _decoded(form: Form, number: int, scope: Scope) -> Decoded:
    instruction = form.instruction
    opcode = instruction.opcode
    if opcode in BARRIERS and gathers(instruction):
        return Decoded(instruction, _decode_warp_barrier(form, scope), "control")
    if opcode == "barrier" and "cluster" in form.flags:
        return Decoded(instruction, decode_cluster_barrier(form), "control")
    if opcode == "mbarrier":
        return Decoded(instruction, decode_mbarrier(form, number, scope), "control")
    if opcode in ENDINGS or opcode in BARRIERS:
        return Decoded(instruction, None, "control")
    if opcode in FENCES:
        return Decoded(instruction, _fence, "control")
    if opcode in IDLE:
        return Decoded(instruction, lambda machine: None, "control")
    if opcode == "mov":
        return Decoded(instruction, _decode_move(form, scope), "move")
    if opcode == "cvta":
        return Decoded(instruction, decode_address(form, scope), "integer")
    if opcode in _MEMORY:
        return Decoded(instruction, _MEMORY[opcode](form, number, scope), "memory")
    if opcode in _WARP:
        return Decoded(instruction, _WARP[opcode](form, scope), "move")
    if opcode in ("mma", "wmma.mma"):
        step, work = decode_multiply(form, scope), matrix_flops(form)
        return Decoded(instruction, step, "tensor", work, "tensor")
    if opcode == "wgmma":
        step = decode_warpgroup(form, number, scope)
        if "mma_async" not in form.flags:
            return Decoded(instruction, step, "control")
        return Decoded(instruction, step, "tensor", warpgroup_product(form, scope).flops, "tensor")
    row = row_of(form)
    check_flags(form, row)
    flops = row.flops * form.types[-1].lanes if row.flops else 0
    pipe: Pipe = (
        "double" if row.pipe == "float" and form.types[-1].value == np.float64 else row.pipe
    )
    return Decoded(
        instruction,
        _decode_value(form, row, scope),
        pipe,
        flops,
        form.types[-1].name.removesuffix("x2") if flops else "",
    )


def _fence(machine: Machine) -> None:
    if machine.checks is not None:
        machine.checks.order.fence(machine.threads.mask)


def _decode_warp_barrier(form: Form, scope: Scope) -> Step:
    """``bar.warp.sync``: the scheduler has let the lanes meet, which only the checks look at."""
    read = reader(form.instruction.operands[0], TYPES["u32"], scope)

    def step(machine: Machine) -> None:
        if machine.checks is not None:
            members = np.broadcast_to(read(machine.threads), (machine.threads.count,))
            machine.checks.order.warp_barrier(members)

    return step


def row_of(form: Form) -> Row:
    """The row of the semantics tables for an instruction."""
    opcode, types = form.instruction.opcode, form.types
    if opcode == "cvt" and not FORMATS.keys().isdisjoint(form.flags):
        return eighths_row(form)
    if opcode == "cvt" and "pack" in form.flags:
        return PACK
    carried = carry_row(form)
    if carried is not None:
        return carried
    for table in (COMPARISONS, CONVERSIONS, OTHERS, BIT_FIELDS, SPACES):
        if opcode in table:
            return table[opcode]
    if not types:
        raise UnknownForm(form.instruction.name)
    table = {"float": FLOATS, "predicate": PREDICATES}.get(types[-1].kind, INTEGERS)
    if len(types) > 1 and opcode != "dp4a":
        table = MIXED if types[0].name == "f32" and types[1].bits == 16 else {}
    if opcode not in table:
        raise UnknownForm(form.instruction.name)
    return table[opcode]


def check_flags(form: Form, row: Row) -> None:
    """Refuse a modifier that the row does not know."""
    unknown = form.flags - row.flags
    if unknown:
        raise UnknownForm(f"{form.instruction.name}: .{sorted(unknown)[0]}")


def _decode_value(form: Form, row: Row, scope: Scope) -> Step:
    target, *sources = form.instruction.operands
    types = row.sources(form)
    if len(types) != len(sources):
        raise UnknownForm(f"{form.instruction.name} with {len(sources)} sources")
    reads = [reader(each, type, scope) for each, type in zip(sources, types, strict=True)]
    puts = writers(target, row.results(form), scope)
    compute = row.compute
    loose = approximation_of(form) if form.types else None

    def step(machine: Machine) -> None:
        threads = machine.threads
        operands = [read(threads) for read in reads]
        made: Array | tuple[Array, ...] = compute(form, *operands)
        if machine.jitter is not None and loose is not None and not isinstance(made, tuple):
            made = machine.jitter.moved(form.instruction, loose, made, *operands)
        values = made if isinstance(made, tuple) else (made,)
        for put, value in zip(puts, values, strict=False):
            put(threads, value)

    return step


def _decode_move(form: Form, scope: Scope) -> Step:
    """``mov``: a register, an address, or the parts of a register put together or taken apart."""
    target, source = form.instruction.operands
    targets, sources = items_of(target), items_of(source)
    if len(targets) == len(sources) == 1:
        read, put = reader(source, form.type, scope), writer(target, form.type, scope)
        return lambda machine: put(machine.threads, read(machine.threads))
    whole = TYPES[f"b{form.type.bits}"]
    count = max(len(targets), len(sources))
    part = TYPES[f"b{form.type.bits // count}"]
    if len(sources) > 1:
        reads = [reader(each, part, scope) for each in sources]
        put = writer(target, whole, scope)

        def join(machine: Machine) -> None:
            parts = [read(machine.threads) for read in reads]
            made = np.stack(np.broadcast_arrays(*parts), axis=-1)
            put(machine.threads, np.ascontiguousarray(made).view(whole.value)[..., 0])

        return join
    read = reader(source, whole, scope)
    puts = [writer(each, part, scope) for each in targets]

    def take_apart(machine: Machine) -> None:
        parts = np.ascontiguousarray(np.atleast_1d(read(machine.threads)))[..., None]
        parts = parts.view(part.value)
        for index, put in enumerate(puts):
            put(machine.threads, parts[..., index])

    return take_apart
