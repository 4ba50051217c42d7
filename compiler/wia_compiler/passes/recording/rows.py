"""The op table of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from wia_compiler.base.record import Level, OpRow
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.text import LinePrinter
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import FusedOp, YieldOp
from wia_compiler.passes.control_flow import edges_into
from wia_compiler.passes.counting import flops_of_op
from wia_compiler.passes.recording.families import family_of, is_index_arithmetic, label_for
from wia_compiler.passes.recording.provenance import OpsBefore

_MOST_SCALAR_OPS = 1500
"""Scalar ops of a low-level stage that a table lists; beyond that it shows structure alone."""


ARGUMENT = "block.argument"
"""The name of the row of a block's argument."""

_Node: TypeAlias = "Operation | BlockArgument"
_Listed: TypeAlias = "tuple[_Node, Operation | None]"


@dataclass
class OpTable:
    """Rows of one stage, the ids of ops and blocks' arguments, the op whose region holds each op.

    An argument has a row where its block is one of several of a function, and not the first.
    """

    rows: tuple[OpRow, ...]
    ids: dict[Operation, str]
    parents: dict[Operation, Operation]
    arguments: dict[BlockArgument, str]


def op_table(
    module: ModuleOp,
    kernel: str,
    level: Level,
    printed: LinePrinter,
    before: OpsBefore,
    types: TypeTexts,
) -> OpTable:
    """Number the ops of a stage and describe each: the kernel's on the high level, else all.

    ``printed`` is the printer that has written the stage: it knows lines and names of blocks.
    """
    listed = list(_listed(module, kernel, level))
    numbers = {node: str(number) for number, (node, _) in enumerate(listed)}
    table = OpTable(
        (),
        {node: id for node, id in numbers.items() if isinstance(node, Operation)},
        {
            node: parent
            for node, parent in listed
            if parent is not None and isinstance(node, Operation)
        },
        {node: id for node, id in numbers.items() if isinstance(node, BlockArgument)},
    )
    values = _Values(table.ids, _calls(module), table.arguments)
    describe = _Describer(table, values, printed, before, types)
    table.rows = tuple(describe.row(node, parent) for node, parent in listed)
    return table


@dataclass
class _Describer:
    table: OpTable
    values: _Values
    printed: LinePrinter
    before: OpsBefore
    types: TypeTexts

    def row(self, node: _Node, parent: Operation | None) -> OpRow:
        holder = self.table.ids.get(parent) if parent is not None else None
        return self._argument(node, holder) if isinstance(node, BlockArgument) else self._op(
            node, holder
        )  # fmt: skip

    def _op(self, op: Operation, parent: str | None) -> OpRow:
        return OpRow(
            id=self.table.ids[op],
            name=op.name,
            label=label_for(op),
            family=family_of(op),
            operands=self.values.operands(op),
            result_type=", ".join(self.types.text(result.type) for result in op.results),
            spans=spans_of(op),
            origins=self.before.origins_of(op),
            parent=parent,
            line=self.printed.lines.get(op, 0),
            flops=flops_of_op(op),
            size_bytes=sum(self.types.size_bytes(result.type) for result in op.results),
            block=self._block(op.parent),
            successors=tuple(self.printed.names_of_blocks[each] for each in op.successors),
            names=tuple(result.name_hint for result in op.results if result.name_hint),
        )

    def _argument(self, argument: BlockArgument, parent: str | None) -> OpRow:
        passed = dict.fromkeys(
            source
            for edge in edges_into(_region_of(argument.block)).get(argument.block, ())
            for source in self.values.sources(edge.values[argument.index])
        )
        return OpRow(
            id=self.table.arguments[argument],
            name=ARGUMENT,
            label=argument.name_hint or f"argument {argument.index}",
            family="other",
            operands=tuple(passed),
            result_type=self.types.text(argument.type),
            spans=spans_of(argument),
            origins=self.before.origins_of_argument(argument),
            parent=parent,
            line=self.printed.block_lines.get(argument.block, 0),
            size_bytes=self.types.size_bytes(argument.type),
            block=self._block(argument.block),
        )

    def _block(self, block: Block | None) -> str:
        region = block.parent if block is not None else None
        if block is None or region is None or region.blocks.first is region.blocks.last:
            return ""
        return self.printed.names_of_blocks.get(block, "")


def _region_of(block: Block) -> Region:
    region = block.parent
    assert region is not None
    return region


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


def _listed(module: ModuleOp, kernel: str, level: Level) -> Iterator[_Listed]:
    """What has a row, each with the op whose region holds it, in order of the text."""
    if level == "high":
        for op in module.ops:
            if isinstance(op, FuncOp) and op.sym_name.data == kernel:
                yield from _inside(op, None, scalars=True)
        return
    scalars = level == "low" and sum(1 for _ in module.walk()) <= _MOST_SCALAR_OPS
    for op in module.ops:
        yield op, None
        yield from _inside(op, op, scalars=scalars, points=level == "mid")


def _inside(
    op: Operation, parent: Operation | None, *, scalars: bool, points: bool = False
) -> Iterator[_Listed]:
    """``points``: the scalar ops of point code too, but not those of leaves."""
    for region in op.regions:
        for block in region.blocks:
            if block is not region.blocks.first:
                yield from ((argument, parent) for argument in block.args)
            for inner in block.ops:
                if _is_listed(inner, scalars or points) or (points and inner.name in _POINTS):
                    yield inner, parent
                if inner.regions and (scalars or inner.name != "tile.compute"):
                    yield from _inside(inner, inner, scalars=scalars, points=points)


_POINTS = ("memref.load", "memref.store", "memref.alloca")
"""Point code that has a row though it computes with indices."""


def _is_listed(op: Operation, scalars: bool) -> bool:
    if isinstance(op, YieldOp) or op.name.endswith(".yield"):
        return False
    if op.name.startswith(("wia.", "tile.", "tpu.", "gpu.", "func.", "cf.")) or op.regions:
        return True
    if op.name in ("memref.alloc", "memref.reinterpret_cast"):
        return True
    if op.name == "memref.load" and _is_in_host(op):
        return True
    return scalars and op.name != "arith.constant" and not is_index_arithmetic(op)


def _is_in_host(op: Operation) -> bool:
    """Whether an op stands in the function that calls nests: there a load reads a condition."""
    holder = op.parent_op()
    return isinstance(holder, FuncOp) and "wia.host" in holder.attributes


def _calls(module: ModuleOp) -> dict[str, list[CallOp]]:
    """The calls of each function."""
    calls: dict[str, list[CallOp]] = {}
    for function in module.ops:
        for block in function.regions[0].blocks if function.regions else ():
            for op in block.ops:
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
    rows: Mapping[BlockArgument, str]
    arguments: dict[SSAValue, tuple[str, ...]] = field(
        default_factory=dict[SSAValue, "tuple[str, ...]"]
    )

    def operands(self, op: Operation) -> tuple[str, ...]:
        return tuple(source for value in op.operands for source in self.sources(value))

    def sources(self, value: SSAValue) -> tuple[str, ...]:
        if isinstance(value, OpResult):
            return (self.ids[value.op],) if value.op in self.ids else ()
        if not isinstance(value, BlockArgument):
            return ()
        if value in self.rows:
            return (self.rows[value],)
        if value not in self.arguments:
            self.arguments[value] = self._argument(value)
        return self.arguments[value]

    def _argument(self, value: BlockArgument) -> tuple[str, ...]:
        holder = value.block.parent_op()
        match holder:
            case FusedOp() | NestOp():
                return self.sources(holder.arguments[value.index])
            case FuncOp() if holder.sym_name.data in self.calls:
                calls = self.calls[holder.sym_name.data]
                passed = (self.sources(call.operands[value.index]) for call in calls)
                return tuple(dict.fromkeys(source for each in passed for source in each))
            case FuncOp():
                return (f"arg:{value.name_hint or value.index}",)
            case _:
                return ()


def count_ops(rows: Sequence[OpRow]) -> int:
    """Ops at the top of a high-level kernel, apart from constants, declarations and branches."""
    return sum(1 for row in rows if row.parent is None and row.name not in _ASIDE)


_ASIDE = (
    "wia.constant",
    "wia.declare",
    "wia.condition",
    "wia.size",
    "loop.output",
    "cf.br",
    "cf.cond_br",
    ARGUMENT,
    ReturnOp.name,
)
