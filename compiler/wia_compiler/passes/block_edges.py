"""What every way to a block passes to it, checked against what the block takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_types import OpenNumber
from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.ops import AnyTensorType, LiteralType, make_op
from wia_compiler.passes.block_types import Known, Open
from wia_compiler.passes.control_flow import Edge, edges_into, reachable_blocks
from wia_compiler.passes.literal_values import LiteralValues
from wia_compiler.passes.loops.specialise import nest_result_types

Fault = Callable[[Operation, str, "str | None"], None]


@dataclass
class BlockEdges:
    """The edges of a function whose values have their types in ``specs``."""

    specs: dict[SSAValue, TensorSpec]
    literals: LiteralValues
    fault: Fault
    set_spec: Callable[[SSAValue, TensorSpec], None]

    def enter(self, block: Block, edges: tuple[Edge, ...]) -> None:
        """Give an argument that has no type yet that of a value which has one by now."""
        for argument in block.args:
            passed = (self.specs.get(edge.values[argument.index]) for edge in edges)
            spec = next((each for each in passed if each is not None), None)
            if argument not in self.specs and spec is not None:
                label = argument.name_hint or "a value"
                self.set_spec(argument, TensorSpec(spec.shape, spec.dtype, label))

    def check(self, function: FuncOp) -> None:
        """Compare all edges into a block with each other; numbers take the type of the argument."""
        place = {block: number for number, block in enumerate(reachable_blocks(function.body))}
        for block, edges in edges_into(function.body).items():
            if not edges:
                continue
            for position, argument in enumerate(block.args):
                if argument not in self.specs:
                    self._untyped(argument, edges[0])
                    continue
                for edge in edges:
                    self._number(edge, position, self.specs[argument])
                self._agree(argument, position, edges, place)

    def _untyped(self, argument: BlockArgument, edge: Edge) -> None:
        value = edge.values[argument.index]
        name = argument.name_hint or "a value"
        if value in self.literals:
            self.fault(
                _maker(value, edge),
                f"{name} is made of literals alone, which leaves its dtype open",
                "write the dtype, e.g. cast(1.0, f32)",
            )

    def _number(self, edge: Edge, position: int, wanted: TensorSpec) -> None:
        """A number of the text becomes an array of what the block takes, full of that number."""
        value = edge.values[position]
        if value not in self.literals:
            return
        typed = self.literals.materialize(value, wanted.dtype, wanted.label or "a value")
        if typed is None:
            return
        self.specs.setdefault(typed, self.literals.spec(typed))
        if wanted.rank:
            spread = make_op(
                "broadcast", [typed], {"shape": wanted.shape}, location=_maker(value, edge).location
            )
            spread.result.name_hint = value.name_hint
            edge.source.insert_op_before(spread, edge.branch)
            typed = spread.result
            self.specs[typed] = wanted
        edge.set_value(position, typed)

    def _agree(
        self,
        argument: BlockArgument,
        position: int,
        edges: tuple[Edge, ...],
        place: Mapping[Block, int],
    ) -> None:
        wanted = self.specs[argument]
        first = next((e for e in edges if self.specs.get(e.values[position]) == wanted), edges[0])
        for edge in edges:
            found = self.specs.get(edge.values[position])
            if found is None or found == wanted:
                continue
            maker, other = (
                _maker(edge.values[position], edge),
                _maker(first.values[position], first),
            )
            name = argument.name_hint or "a value"
            returns = place[edge.source] >= place[argument.block]
            here, there = (
                ("as the loop begins", "as it comes back")
                if returns
                else ("on one way", "on another")
            )
            self.fault(
                maker,
                f"{name} is {wanted} {here}{_line(other)} and {found} {there}{_line(maker)}",
                "where branches meet, a name has one shape and one dtype: cast, reshape or "
                "broadcast one of them, or use another name",
            )


def _maker(value: SSAValue, edge: Edge) -> Operation:
    """The op that made a value, else the branch that passes it on."""
    return value.owner if isinstance(value.owner, Operation) else edge.branch


def _line(op: Operation) -> str:
    spans = spans_of(op)
    return f" (line {spans[0].line})" if spans else ""


def types_of_results(op: Operation, operands: list[Known | None]) -> list[TensorSpec | None]:
    """Types of an op's results as far as they are static, or follow from a nest's operands."""
    if isinstance(op, NestOp):
        return nest_result_types(op, [_in_nest(each) for each in operands])
    open_ = AnyTensorType | LiteralType
    return [None if isinstance(each.type, open_) else spec_of(each.type) for each in op.results]


def _in_nest(known: Known | None) -> TensorSpec | OpenNumber | None:
    return OpenNumber(known.kind) if isinstance(known, Open) else known
