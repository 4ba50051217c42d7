"""A kernel's host side as data: which entries run, in which order, on which buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
)
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, SSAValue

from wia_compiler.backends.gpu.tensor_maps import TensorMapPlan, tensor_map_of
from wia_compiler.dialects.gpu_dynamic_shared import DYNAMIC_SHARED_BYTES
from wia_compiler.dialects.nvgpu_hopper import TensorMapCreateOp
from wia_compiler.passes.llvm.types import size_bytes

BLOCK_SIZE = "wia.block_size"
GRID_SIZE = "wia.grid_size"
MIN_BLOCKS = "wia.min_blocks"
PARTS = "wia.parts"
"""Attribute of a kernel that others were merged into: their entries, blocks and threads."""


@dataclass(frozen=True)
class LaunchPart:
    """A kernel in a launch of several: so many blocks behind those of the parts before it.

    ``cycles`` is an estimate of how long one of its warps takes alone: what it is beside the others
    counts, not the number.
    """

    entry: str
    blocks: int
    threads: int
    cycles: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch: ``blocks`` × ``threads`` of ``entry`` on ``buffers``.

    Buffers are numbers: the kernel's inputs and outputs in order, then the plan's workspaces.
    ``dynamic_shared_bytes`` is what the launch asks for beside the entry's static shared memory.
    ``tensor_maps`` are parameters behind the buffers. ``parts`` are the kernels of a merged launch,
    each with a range of the blocks; empty where there is one.
    """

    entry: str
    blocks: int
    threads: int
    buffers: tuple[int, ...]
    dynamic_shared_bytes: int = 0
    tensor_maps: tuple[TensorMapPlan, ...] = ()
    parts: tuple[LaunchPart, ...] = ()


@dataclass(frozen=True)
class PlanBlock:
    """Launches that follow one another, ``launches[first:last]`` of the plan, and what comes next.

    Where ``condition`` is a buffer, its first byte is read back from the device: block ``then``
    follows if it is not 0, block ``otherwise`` if it is. ``None`` is the end of the kernel.
    """

    first: int
    last: int
    then: int | None = None
    otherwise: int | None = None
    condition: int | None = None


@dataclass(frozen=True)
class LaunchPlan:
    """All launches in order of the text, and the bytes of each workspace (intermediates).

    ``blocks`` says how control goes through them where the kernel branches; the first is where it
    begins. Without blocks, all launches run in order. ``status`` is the buffer, of zeros at first,
    in which launches note the first check of an index that failed; ``None`` where nothing is
    checked.
    """

    launches: tuple[Launch, ...]
    workspace_bytes: tuple[int, ...] = ()
    blocks: tuple[PlanBlock, ...] = ()
    status: int | None = None

    def to_metadata(self) -> Mapping[str, Any]:
        """The plan as JSON values, for an artifact."""
        return {
            "launches": [
                {
                    "entry": launch.entry,
                    "grid": [launch.blocks, 1, 1],
                    "block": [launch.threads, 1, 1],
                    "dynamic_shared_bytes": launch.dynamic_shared_bytes,
                    "buffers": list(launch.buffers),
                    "tensor_maps": [asdict(each) for each in launch.tensor_maps],
                    "parts": [asdict(each) for each in launch.parts],
                }
                for launch in self.launches
            ],
            "workspace_bytes": list(self.workspace_bytes),
            "blocks": [asdict(block) for block in self.blocks],
            "status": self.status,
        }

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> LaunchPlan:
        """Read what ``to_metadata`` wrote."""
        launches = tuple(
            Launch(
                row["entry"],
                row["grid"][0],
                row["block"][0],
                tuple(row["buffers"]),
                row["dynamic_shared_bytes"],
                tuple(TensorMapPlan.from_metadata(each) for each in row.get("tensor_maps", ())),
                tuple(LaunchPart(**each) for each in row.get("parts", ())),
            )
            for row in metadata["launches"]
        )
        blocks = tuple(PlanBlock(**row) for row in metadata.get("blocks", ()))
        workspaces = tuple(metadata["workspace_bytes"])
        return LaunchPlan(launches, workspaces, blocks, metadata.get("status"))

    def in_order(self, is_true: Callable[[int], bool]) -> Iterator[Launch]:
        """The launches of one run; ``is_true`` reads a condition's buffer, when it is decided."""
        if not self.blocks:
            yield from self.launches
            return
        number: int | None = 0
        while number is not None:
            block = self.blocks[number]
            yield from self.launches[block.first : block.last]
            taken = block.condition is None or is_true(block.condition)
            number = block.then if taken else block.otherwise


def plan_of(module: ModuleOp, entries: Mapping[str, str]) -> LaunchPlan:
    """The launches of a lowered module's host function.

    ``entries`` maps functions to the names their kernels have in the PTX. Kernels without blocks
    (nothing to compute) are left out.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    (host,) = (op for op in functions.values() if "wia.host" in op.attributes)
    made = _Plan(functions, entries, list(host.body.blocks))
    for block in host.body.blocks:
        made.block(block)
    branches = tuple(made.blocks) if len(made.blocks) > 1 else ()
    return LaunchPlan(tuple(made.launches), tuple(made.workspaces), branches, made.status)


class _Plan:
    """A plan in the making; ``numbers`` are those of the buffers."""

    def __init__(
        self, functions: Mapping[str, FuncOp], entries: Mapping[str, str], order: list[Block]
    ):
        self.functions = functions
        self.entries = entries
        self.order = order
        self.parameters = len(order[0].args)
        self.numbers: dict[SSAValue, int] = {arg: n for n, arg in enumerate(order[0].args)}
        self.maps: dict[SSAValue, TensorMapPlan] = {}
        self.workspaces: list[int] = []
        self.launches: list[Launch] = []
        self.blocks: list[PlanBlock] = []
        self.status: int | None = None

    def block(self, block: Block) -> None:
        first = len(self.launches)
        for op in block.ops:
            match op:
                case memref.AllocOp():
                    self.numbers[op.memref] = self.parameters + len(self.workspaces)
                    self.workspaces.append(_size_bytes(op.memref))
                case memref.ReinterpretCastOp():
                    self.numbers[op.result] = self.numbers[op.source]
                case memref.StoreOp():
                    # All that a host function writes: it clears the record of its checks.
                    self.status = self.numbers[op.memref]
                case memref.LoadOp():
                    self.numbers[op.res] = self.numbers[op.memref]
                case TensorMapCreateOp():
                    self.maps[op.tensorMap] = tensor_map_of(op, self.numbers[op.tensor])
                case CallOp():
                    self._launch(op)
                case _:
                    pass
        self.blocks.append(self._end(block, first))

    def _launch(self, op: CallOp) -> None:
        callee = self.functions[op.callee.root_reference.data]
        blocks, threads = (integer_of(callee, name) for name in (GRID_SIZE, BLOCK_SIZE))
        maps = tuple(self.maps[value] for value in op.arguments if value in self.maps)
        arrays = [value for value in op.arguments if value not in self.maps]
        buffers = tuple(self.numbers[value] for value in arrays)
        if blocks:
            entry = self.entries[callee.sym_name.data]
            shared = integer_of(callee, DYNAMIC_SHARED_BYTES)
            parts = parts_of(callee)
            self.launches.append(Launch(entry, blocks, threads, buffers, shared, maps, parts))

    def _end(self, block: Block, first: int) -> PlanBlock:
        last, branch = len(self.launches), block.last_op
        match branch:
            case BranchOp():
                return PlanBlock(first, last, self.order.index(branch.successor))
            case ConditionalBranchOp():
                then, otherwise = (self.order.index(each) for each in branch.successors)
                return PlanBlock(first, last, then, otherwise, self.numbers[branch.cond])
            case _:
                return PlanBlock(first, last)


def parts_of(kernel: FuncOp) -> tuple[LaunchPart, ...]:
    """The kernels that were merged into one; empty for any other."""
    rows = cast("ArrayAttr[DictionaryAttr]", kernel.attributes.get(PARTS, ArrayAttr([])))
    found: list[LaunchPart] = []
    for row in (cast("Mapping[str, Any]", each.data) for each in rows):
        blocks, threads, cycles = (row[name].value.data for name in ("blocks", "threads", "cycles"))
        found.append(LaunchPart(row["entry"].data, blocks, threads, cycles))
    return tuple(found)


def integer_of(function: FuncOp, name: str) -> int:
    """An integer attribute of a kernel, 0 where it is absent."""
    attribute = function.attributes.get(name)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else 0


def _size_bytes(buffer: SSAValue) -> int:
    type = cast("MemRefType[Attribute]", buffer.type)
    return prod(type.get_shape()) * size_bytes(type.element_type)
