"""Launches that do not wait for each other become one: the stage ``merge-launches``.

::

    func.call @softmax(%a, %s)        →    func.call @softmax_and_relu(%a, %s, %b, %r)
    func.call @relu(%b, %r)

Fusion makes one nest of ops over the same points; here kernels stay what their schedules made of
them, and share a launch (``merged_kernel``). What that brings is modelled (``launch_model``): a
launch less, and SMs that one kernel alone leaves idle; it costs where a block of one has to take
the registers or shared memory of another and fewer fit on an SM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, cast

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS, Architecture
from wia_compiler.backends.gpu.launch import integer_of
from wia_compiler.backends.gpu.launch_costs import registers_of, spent_by
from wia_compiler.backends.gpu.launch_effects import Effects, effects_of, root_of
from wia_compiler.backends.gpu.launch_model import LEAST_SHARE, Merging, Part, merging_of, widest
from wia_compiler.backends.gpu.merged_kernel import (
    Piece,
    fits_guarded,
    merge_kernels,
    name_of,
    static_bytes,
)
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.gpu_dynamic_shared import DYNAMIC_SHARED_BYTES
from wia_compiler.dialects.nvgpu_hopper import SetMaxRegisterOp
from wia_compiler.dialects.nvgpu_hopper_types import TENSOR_MAP_BYTES
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.costs import THRESHOLD
from wia_compiler.passes.llvm.types import size_bytes

MOST_PARTS = 32
MOST_OPS = 6_000
"""Of a merged kernel: time to compile grows faster than its size."""
PARAMETER_BYTES = 4096
"""Of a launch, on every architecture and driver."""
_NAMED = 4
"""Parts that a decision calls by name."""
_NEIGHBOURS = 4
"""Launches before one that it is compared with."""


@dataclass(frozen=True)
class MergeLaunchesPass:
    """Launches of a block of the host that are independent share one where the model says so.

    A launch moves up to an earlier one: past those in between, which it must not wait for.
    """

    architecture: Architecture

    name: ClassVar[str] = "merge-launches"
    level: ClassVar[Level] = "low"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite the host and its kernels in place."""
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        hosts = [op for op in functions.values() if "wia.host" in op.attributes]
        calls = [op for host in hosts for op in host.walk() if isinstance(op, CallOp)]
        count = Counter(call.callee.string_value() for call in calls)
        for host in hosts:
            for block in host.body.blocks:
                _Merger(block, functions, self.architecture, context, count).run()
        for name in [name for name, left in count.items() if not left]:
            functions[name].detach()
            functions[name].erase()


@dataclass(eq=False)
class _Slot:
    """A launch of the new host: the calls that it stands for, and what they take and touch."""

    calls: list[CallOp]
    parts: list[Part]
    effects: Effects
    ops: int


@dataclass
class _Merger:
    block: Block
    functions: dict[str, FuncOp]
    architecture: Architecture
    context: PassContext
    calls: Counter[str]
    costs: dict[str, Part] = field(default_factory=dict[str, Part])

    def run(self) -> None:
        slots: list[_Slot] = []
        for call in [op for op in self.block.ops if isinstance(op, CallOp)]:
            slot = self._slot(call)
            if slot is None:
                continue
            waits = [n for n, each in enumerate(slots) if slot.effects.waits_for(each.effects)]
            free = slots[waits[-1] + 1 if waits else 0 :]
            best = self._best(free[-_NEIGHBOURS:], slot)
            if best is None:
                slots.append(slot)
                continue
            best.calls += slot.calls
            best.parts += slot.parts
            best.effects |= slot.effects
            best.ops += slot.ops
        for slot in slots:
            if len(slot.calls) > 1:
                self._rewrite(slot)

    def _slot(self, call: CallOp) -> _Slot | None:
        """A launch of one kernel; ``None`` where nothing is launched."""
        kernel = self.functions[call.callee.string_value()]
        part = self._part(call, kernel)
        if part.blocks == 0:
            return None
        ops = sum(1 for _ in kernel.walk())
        return _Slot([call], [part], effects_of(call, kernel), ops)

    def _part(self, call: CallOp, kernel: FuncOp) -> Part:
        name = kernel.sym_name.data
        if name not in self.costs:
            piece = Piece(kernel, tuple(call.arguments))
            self.costs[name] = Part(
                name,
                piece.blocks,
                piece.threads,
                registers_of(kernel, max(piece.threads, 1)),
                static_bytes(kernel),
                integer_of(kernel, DYNAMIC_SHARED_BYTES),
                spent_by(kernel.body.block),
                sum(map(_array_bytes, {root_of(value) for value in call.arguments})),
            )
        return self.costs[name]

    def _best(self, slots: Sequence[_Slot], new: _Slot) -> _Slot | None:
        """The launch that gains most by taking a new one in; the choice and refusals are noted.

        Of equals it is the earliest: more of those behind it then wait for what comes before them.
        """
        found: list[tuple[_Slot, Merging]] = []
        for slot in slots:
            merging = merging_of(
                self.architecture, [slot.parts, new.parts], widest([*slot.parts, *new.parts])
            )
            refusal = self._refusal(slot, new) or _refusal_by_numbers(merging)
            if refusal is None:
                found.append((slot, merging))
            else:
                self._note(slot, new, merging, taken=False, reason=refusal)
        if not found:
            return None
        slot, merging = max(found, key=lambda each: round(1e9 * each[1].gain, -1))
        self._note(slot, new, merging, taken=True, reason=_taken_reason(merging))
        return slot

    def _refusal(self, slot: _Slot, new: _Slot) -> str | None:
        """Why two launches cannot be one, whatever it would bring."""
        calls = [*slot.calls, *new.calls]
        kernels = [self.functions[call.callee.string_value()] for call in calls]
        parts = [*slot.parts, *new.parts]
        joint = widest(parts)
        if len(parts) > MOST_PARTS:
            return f"a launch has up to {MOST_PARTS} parts, not {len(parts)}"
        if slot.ops + new.ops > MOST_OPS:
            ops = slot.ops + new.ops
            return f"together they have {ops:,} ops, kernels of up to {MOST_OPS:,} are merged"
        passed = dict.fromkeys(value for call in calls for value in call.arguments)
        size = sum(map(_parameter_bytes, passed))
        if size > PARAMETER_BYTES:
            return f"a launch has {PARAMETER_BYTES} bytes of parameters, together they need {size}"
        limit = self.architecture.block_shared_kib * 1024
        if joint.static + joint.dynamic > limit:
            need = joint.static + joint.dynamic
            return f"a block has {limit:,} bytes of shared memory, one of either needs {need:,}"
        for kernel, part in zip(kernels, parts, strict=True):
            if part.threads == joint.threads:
                continue
            if not fits_guarded(kernel, part.threads):
                return (
                    f"{part.name} runs in blocks of {part.threads} threads, no whole warps, which "
                    f"cannot wait for each other among {joint.threads}"
                )
            if any(isinstance(op, SetMaxRegisterOp) for op in kernel.walk()):
                return (
                    f"warpgroups of {part.name} share out the registers of {part.threads} threads, "
                    f"not of {joint.threads}"
                )
        return None

    def _note(self, slot: _Slot, new: _Slot, merging: Merging, *, taken: bool, reason: str) -> None:
        calls = [*slot.calls, *new.calls]
        kernels = [self.functions[call.callee.string_value()] for call in calls]
        subjects = [self.context.id_of(op) for op in (*kernels, *calls)]
        names = _names(merging)
        numbers = _numbers(merging, self.architecture)
        found = tuple(dict.fromkeys(filter(None, subjects)))
        self.context.decisions.append(Decision("horizontal", names, taken, reason, numbers, found))

    def _rewrite(self, slot: _Slot) -> None:
        """The joint kernel behind the others, and its call where the first one stood."""
        # Blocks are dealt out in order: those that take longest first, so that none is left over.
        order = sorted(
            range(len(slot.calls)), key=lambda n: -slot.parts[n].block_cycles(self.architecture)
        )
        pieces = [self._piece(slot.calls[n], slot.parts[n]) for n in order]
        name = name_of(pieces, set(self.functions))
        kernel, passed = merge_kernels(name, pieces)
        self.functions[name] = kernel
        module = cast(FuncOp, self.block.parent_op()).parent
        assert module is not None
        module.add_op(kernel)
        first = slot.calls[0]
        for value in passed:
            _move_before(value, first)
        call = CallOp(name, passed, [])
        call.location = first.location
        self.block.insert_op_before(call, first)
        for each in slot.calls:
            each.detach()
            each.erase()

    def _piece(self, call: CallOp, part: Part) -> Piece:
        """The kernel of a call to take apart: a copy where others call it too."""
        name = call.callee.string_value()
        kernel = self.functions[name]
        self.calls[name] -= 1
        own = kernel.clone() if self.calls[name] else kernel
        cycles = round(part.warp_cycles(self.architecture))
        return Piece(own, tuple(call.arguments), cycles)


def _refusal_by_numbers(merging: Merging) -> str | None:
    """Why merging does not pay; ``None`` where it does."""
    if merging.pays:
        return None
    before = sum(merging.apart) + LAUNCH_SECONDS * len(merging.apart)
    if merging.benefit > THRESHOLD * merging.cost:
        return (
            f"both fill the GPU: the launch saved is {100 * merging.share:.1f} % of "
            f"{micros(before)}, {100 * LEAST_SHARE:.0f} % are needed"
        )
    held = merging.held
    return (
        f"an SM holds {held.ctas_per_sm} blocks of the joint launch ({held.limiter}): "
        f"{micros(merging.benefit)} are saved, {micros(merging.cost)} lost"
    )


def _taken_reason(merging: Merging) -> str:
    idle = merging.benefit - LAUNCH_SECONDS
    more = f", and {micros(idle)} that SMs were idle" if idle > LAUNCH_SECONDS / 100 else ""
    cost = f", {micros(merging.cost)} lost" if merging.cost else ""
    return f"neither waits for the other: one launch less{more}{cost}, by the model"


def _names(merging: Merging) -> str:
    """``a | b``; of many parts the first and the last."""
    names = [part.name for part in merging.parts]
    if len(names) > _NAMED:
        names = [names[0], f"{len(names) - 2} more", names[-1]]
    return " | ".join(names)


def _numbers(merging: Merging, architecture: Architecture) -> dict[str, float | int | str]:
    parts = merging.parts
    waves = (
        blocks / max(held.ctas_per_sm * architecture.sm_count, 1)
        for blocks, held in zip(merging.blocks, merging.alone, strict=True)
    )
    numbers: dict[str, float | int | str] = {
        "blocks": " + ".join(str(part.blocks) for part in parts),
        "threads": ", ".join(str(part.threads) for part in parts),
        "registers_estimated": ", ".join(str(part.registers) for part in parts),
        "shared": ", ".join(f"{part.static + part.dynamic:,}" for part in parts),
        "waves": ", ".join(f"{each:.2f}" for each in waves),
        "blocks_per_sm": ", ".join(str(held.ctas_per_sm) for held in merging.alone),
        "joint_blocks_per_sm": merging.held.ctas_per_sm,
        "apart_us": round(1e6 * sum(merging.apart), 2),
        "together_us": round(1e6 * merging.together, 2),
        "saved_launches": 1,
        "benefit": round(1e6 * merging.benefit, 2),
        "cost": round(1e6 * merging.cost, 2),
    }
    if merging.cost:
        numbers["ratio"] = round(merging.benefit / merging.cost, 2)
        numbers["threshold"] = THRESHOLD
    return numbers


def micros(seconds: float) -> str:
    """``12.3 µs``."""
    return f"{1e6 * seconds:.3g} µs"


def _array_bytes(buffer: SSAValue) -> int:
    type = buffer.type
    if not isinstance(type, MemRefType):
        return 0
    of = cast("MemRefType[Attribute]", type)
    return prod(of.get_shape()) * size_bytes(of.element_type)


def _parameter_bytes(value: SSAValue) -> int:
    return 8 if isinstance(value.type, MemRefType) else TENSOR_MAP_BYTES


def _move_before(value: SSAValue, place: Operation) -> None:
    """What makes a value of the host, allocations, views and tensor maps, comes before an op."""
    op = value.owner
    if not isinstance(op, Operation) or op.parent is not place.parent or _is_before(op, place):
        return
    for operand in op.operands:
        _move_before(operand, place)
    block = place.parent
    assert block is not None
    op.detach()
    block.insert_op_before(op, place)


def _is_before(op: Operation, place: Operation) -> bool:
    following = op.next_op
    while following is not None:
        if following is place:
            return True
        following = following.next_op
    return False
