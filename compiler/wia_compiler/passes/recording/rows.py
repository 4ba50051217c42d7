"""The op table of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from wia_compiler.base.record import Level, OpRow
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import FusedOp, TensorOp, YieldOp
from wia_compiler.passes.recording.families import family_of, is_index_arithmetic, label_for
from wia_compiler.passes.recording.provenance import OpsBefore

_MOST_SCALAR_OPS = 1500
"""Scalar ops of a low-level stage that a table lists; beyond that it shows structure alone."""


@dataclass
class OpTable:
    """Rows of one stage, the id of every op that has one, and the op whose region holds it."""

    rows: tuple[OpRow, ...]
    ids: dict[Operation, str]
    parents: dict[Operation, Operation]


def op_table(
    module: ModuleOp,
    kernel: str,
    level: Level,
    lines: Mapping[Operation, int],
    before: OpsBefore,
    types: TypeTexts,
) -> OpTable:
    """Number the ops of a stage and describe each: the kernel's on the high level, else all."""
    listed = list(_listed(module, kernel, level))
    ids = {op: str(number) for number, (op, _) in enumerate(listed)}
    values = _Values(ids, _calls(module))
    rows = tuple(
        OpRow(
            id=ids[op],
            name=op.name,
            label=label_for(op),
            family=family_of(op),
            operands=values.operands(op),
            result_type=", ".join(types.text(result.type) for result in op.results),
            spans=spans_of(op),
            origins=before.origins_of(op),
            parent=ids.get(parent) if parent is not None else None,
            line=lines.get(op, 0),
            flops=_flops(op),
            size_bytes=sum(types.size_bytes(result.type) for result in op.results),
        )
        for op, parent in listed
    )
    return OpTable(rows, ids, {op: parent for op, parent in listed if parent is not None})


@dataclass
class TypeTexts:
    """Texts and sizes of types, each made once: a stage has few types and many ops."""

    texts: dict[Attribute, str] = field(default_factory=dict[Attribute, str])
    sizes: dict[Attribute, int] = field(default_factory=dict[Attribute, int])

    def text(self, type: Attribute) -> str:
        """How MLIR writes the type."""
        if type not in self.texts:
            self.texts[type] = str(type)
        return self.texts[type]

    def size_bytes(self, type: Attribute) -> int:
        """Bytes of a static tensor; 0 for other types."""
        if type not in self.sizes:
            tensor = isinstance(type, TensorType)
            self.sizes[type] = spec_of(cast(Attribute, type)).size_bytes if tensor else 0
        return self.sizes[type]


def line_spans(lines: Mapping[Operation, int]) -> dict[int, tuple[Span, ...]]:
    """Where in the source each line of a printed stage comes from."""
    found = {line: spans_of(op) for op, line in lines.items()}
    return {line: spans for line, spans in sorted(found.items()) if spans}


def _listed(
    module: ModuleOp, kernel: str, level: Level
) -> Iterator[tuple[Operation, Operation | None]]:
    """The ops that have a row, each with the op whose region holds it, in order of the text."""
    if level == "high":
        for op in module.ops:
            if isinstance(op, FuncOp) and op.sym_name.data == kernel:
                yield from _inside(op, None, scalars=True)
        return
    scalars = level == "low" and sum(1 for _ in module.walk()) <= _MOST_SCALAR_OPS
    for op in module.ops:
        yield op, None
        yield from _inside(op, op, scalars=scalars)


def _inside(
    op: Operation, parent: Operation | None, *, scalars: bool
) -> Iterator[tuple[Operation, Operation | None]]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if _is_listed(inner, scalars):
                    yield inner, parent
                if inner.regions and (scalars or inner.name != "tile.compute"):
                    yield from _inside(inner, inner, scalars=scalars)


def _is_listed(op: Operation, scalars: bool) -> bool:
    if isinstance(op, YieldOp) or op.name.endswith(".yield"):
        return False
    if op.name.startswith(("wia.", "tile.", "tpu.", "gpu.", "func.")) or op.regions:
        return True
    if op.name in ("memref.alloc", "memref.reinterpret_cast"):
        return True
    return scalars and op.name != "arith.constant" and not is_index_arithmetic(op)


def _calls(module: ModuleOp) -> dict[str, list[CallOp]]:
    """The calls of each function."""
    calls: dict[str, list[CallOp]] = {}
    for function in module.ops:
        for op in function.regions[0].ops if function.regions else ():
            if isinstance(op, CallOp):
                calls.setdefault(op.callee.string_value(), []).append(op)
    return calls


@dataclass
class _Values:
    """Which rows, or which parameters of the kernel, a value comes from.

    A parameter of a function that is called several times is what each call passes, each once.
    """

    ids: Mapping[Operation, str]
    calls: Mapping[str, Sequence[CallOp]]
    arguments: dict[SSAValue, tuple[str, ...]] = field(
        default_factory=dict[SSAValue, "tuple[str, ...]"]
    )

    def operands(self, op: Operation) -> tuple[str, ...]:
        return tuple(source for value in op.operands for source in self._sources(value))

    def _sources(self, value: SSAValue) -> tuple[str, ...]:
        if isinstance(value, OpResult):
            return (self.ids[value.op],) if value.op in self.ids else ()
        if not isinstance(value, BlockArgument):
            return ()
        if value not in self.arguments:
            self.arguments[value] = self._argument(value)
        return self.arguments[value]

    def _argument(self, value: BlockArgument) -> tuple[str, ...]:
        holder = value.block.parent_op()
        match holder:
            case FusedOp():
                return self._sources(holder.arguments[value.index])
            case FuncOp() if holder.sym_name.data in self.calls:
                calls = self.calls[holder.sym_name.data]
                passed = (self._sources(call.operands[value.index]) for call in calls)
                return tuple(dict.fromkeys(source for each in passed for source in each))
            case FuncOp():
                return (f"arg:{value.name_hint or value.index}",)
            case _:
                return ()


def _flops(op: Operation) -> int:
    if isinstance(op, FusedOp):
        return sum(_flops(inner) for inner in op.body.block.ops)
    return op.flops if isinstance(op, TensorOp) and op.is_specialized else 0


def count_ops(rows: Sequence[OpRow]) -> int:
    """Ops at the top of a high-level kernel, apart from constants, declarations and the return."""
    aside = ("wia.constant", "wia.declare", ReturnOp.name)
    return sum(1 for row in rows if row.parent is None and row.name not in aside)
