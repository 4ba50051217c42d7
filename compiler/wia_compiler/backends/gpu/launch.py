"""A kernel's host side as data: which entries run, in which order, on which buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue

from wia_compiler.passes.llvm.types import size_bytes

BLOCK_SIZE = "wia.block_size"
GRID_SIZE = "wia.grid_size"
MIN_BLOCKS = "wia.min_blocks"


@dataclass(frozen=True)
class Launch:
    """One kernel launch: ``blocks`` × ``threads`` of ``entry`` on ``buffers``.

    Buffers are numbers: the kernel's inputs and outputs in order, then the plan's workspaces.
    ``dynamic_shared_bytes`` is what the launch asks for beside the entry's static shared memory.
    """

    entry: str
    blocks: int
    threads: int
    buffers: tuple[int, ...]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class LaunchPlan:
    """All launches in order, and the bytes of each workspace (intermediates between launches)."""

    launches: tuple[Launch, ...]
    workspace_bytes: tuple[int, ...] = ()

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
                }
                for launch in self.launches
            ],
            "workspace_bytes": list(self.workspace_bytes),
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
            )
            for row in metadata["launches"]
        )
        return LaunchPlan(launches, tuple(metadata["workspace_bytes"]))


def plan_of(module: ModuleOp, entries: Mapping[str, str]) -> LaunchPlan:
    """The launches of a lowered module's host function.

    ``entries`` maps functions to the names their kernels have in the PTX. Kernels without blocks
    (nothing to compute) are left out.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    (host,) = (op for op in functions.values() if "wia.host" in op.attributes)
    numbers: dict[SSAValue, int] = {arg: n for n, arg in enumerate(host.body.block.args)}
    workspaces: list[int] = []
    launches: list[Launch] = []
    for op in host.body.block.ops:
        match op:
            case memref.AllocOp():
                numbers[op.memref] = len(host.body.block.args) + len(workspaces)
                workspaces.append(_size_bytes(op.memref))
            case memref.ReinterpretCastOp():
                numbers[op.result] = numbers[op.source]
            case CallOp():
                callee = functions[op.callee.root_reference.data]
                blocks, threads = (_integer(callee, name) for name in (GRID_SIZE, BLOCK_SIZE))
                buffers = tuple(numbers[value] for value in op.arguments)
                if blocks:
                    entry = entries[callee.sym_name.data]
                    launches.append(Launch(entry, blocks, threads, buffers))
            case _:
                pass
    return LaunchPlan(tuple(launches), tuple(workspaces))


def _integer(function: FuncOp, name: str) -> int:
    attribute = function.attributes[name]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def _size_bytes(buffer: SSAValue) -> int:
    type = cast("MemRefType[Attribute]", buffer.type)
    return prod(type.get_shape()) * size_bytes(type.element_type)
