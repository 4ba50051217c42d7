"""The mid level: loops over tiles with structured leaves (dialect ``tile``).

A kernel is a ``func.func`` whose arguments are memrefs (inputs, then outputs) and whose body is a
nest: ``tile.for`` loops with an axis name and a level, ``memref.alloc`` buffers whose memory space
is their scope (``"register"``, ``"shared"``, ``"packed"``; none is the target's main memory), and
``tile.compute`` leaves. A leaf keeps its iteration space, one affine map per operand, a scalar
body and the bounds that mask ragged edges, so that a target can recognise what it can spell.

A module holds one host function (attribute ``wia.host``) and the nest functions it calls
(``wia.nest``). The host holds ``memref.alloc`` (intermediates), ``memref.reinterpret_cast`` (the
same memory under other static sizes and strides, offset 0), ``func.call`` and ``func.return``,
nothing else. A nest function holds one nest: loops, nested one in another or side by side, and
in their bodies register buffers and leaves in the order in which they run. A loop ``"i.0"``, and
``"i.1"`` inside it, walk the leaf axis ``i``: every leaf inside them has that axis, and lists the
loops' induction variables in ``at``. No loop, axis or buffer of a nest before scheduling has
extent 0, and axes of size 1 have no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal, Self, cast, get_args

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.tile_places import LookupOp, PositionsOp
from wia_compiler.dialects.tile_text import expression_text, parse_expression

LoopLevel = Literal["grid", "block", "warp", "thread", "vector", "serial"]
LeafLevel = Literal["thread", "warp", "block"]
LeafKind = Literal["map", "reduce", "contract", "window", "copy"]
ORDERED = "wia.ordered"
"""Unit attribute of a folding leaf from loops over elements: it adds in the order of the text."""
PRODUCTS = "wia.products"
"""Unit attribute of a ``reduce`` leaf that is a matrix product of values computed on the way."""


@irdl_op_definition
class ForOp(IRDLOperation):
    """A loop over the tiles of one axis.

    ``tile.for %i0 in 1000 step 128 axis "i.0" @grid { … }`` runs its body with 0, 128, … below
    1000. ``grid`` iterations are independent blocks, ``thread`` iterations the threads of a block;
    both may run in any order. ``serial`` iterations run in order.
    """

    name = "tile.for"

    axis = prop_def(StringAttr)
    level = prop_def(StringAttr)
    extent = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(
        self,
        axis: str,
        extent: int,
        step: int = 1,
        level: LoopLevel = "serial",
        body: Region | None = None,
    ):
        if body is None:
            body = Region(Block(arg_types=[IndexType()]))
            body.block.args[0].name_hint = hint_of(axis)
        super().__init__(
            properties={
                "axis": StringAttr(axis),
                "level": StringAttr(level),
                "extent": _integer(extent),
                "step": _integer(step),
            },
            regions=[body],
        )

    @property
    def induction_variable(self) -> SSAValue:
        """The first index of the tile."""
        return self.body.block.args[0]

    @property
    def trip_count(self) -> int:
        """How often the body runs."""
        return -(-self.extent.value.data // self.step.value.data)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.induction_variable)
        printer.print_string(f" in {self.extent.value.data} step {self.step.value.data} axis ")
        printer.print_attribute(self.axis)
        printer.print_string(f" @{self.level.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        variable = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_characters("in")
        extent = parser.parse_integer()
        parser.parse_characters("step")
        step = parser.parse_integer()
        parser.parse_characters("axis")
        axis = parser.parse_str_literal()
        level = parser.parse_symbol_name().data
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([variable])
        loop = cls(axis, extent, step, cast(LoopLevel, level), body)
        loop.attributes = dict(attributes.data) if attributes is not None else {}
        return loop

    def verify_(self) -> None:
        if self.level.data not in get_args(LoopLevel):
            raise VerifyException(f"no loop level {self.level.data!r}: {get_args(LoopLevel)}")
        if self.step.value.data < 1 or self.extent.value.data < 0:
            raise VerifyException("a tile loop has an extent from 0 and a step from 1")
        if tuple(self.body.block.arg_types) != (IndexType(),):
            raise VerifyException("a tile loop's region takes one index")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The new element of each output of a leaf."""

    name = "tile.yield"

    arguments = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "$arguments attr-dict `:` type($arguments)"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[list(values)])


@irdl_op_definition
class ComputeOp(IRDLOperation):
    """A structured leaf: for every point of ``axes`` inside ``bounds``, read, compute, write.

    ::

        tile.compute contract @thread axes [i = 128, j = 128, k = 32 reduce] at (%i0, %j0, %k0)
          bounds (%i0 + i < 1000)
          ins(%a[%i0 + i, %k0 + k] : memref<…>, %b[%k0 + k, %j0 + j] : memref<…>)
          outs(%acc[i, j] : memref<…, "register">) {
          ^bb0(%x: f32, %y: f32, %sum: f32): … tile.yield %new : f32 }

    * ``kind``  map (each output element once), reduce and contract (outputs are folded over the
      ``reduce`` axes, starting from what they hold), window (a contraction whose input index adds
      two axes), copy.
    * ``level`` who runs it: ``thread``, the loop instance alone; ``warp`` or ``block``, all its
      threads share the points, and all see the outputs afterwards.
    * maps are affine in the axes (dims) and the induction variables of ``at`` (symbols); one for
      each input and output. A memref's element is read at the map's results.
    * ``bounds`` pairs an affine expression with a limit: a point takes part when
      0 <= expression < limit.
    * ``padded`` names inputs that read as 0 where an index lies outside the memref.
    * the body takes one scalar per input and, for reduce, contract and window, one per output (what
      the output holds now); a map or copy body takes inputs only. A map leaf without inputs fills.
    * a contract or window leaf before scheduling has two inputs, read from memory as they are.
    * an output of a folding leaf is yielded by one op that combines what it held with an element
      (``arith.addf %sum, %x``): that op is also how two partial results are combined. An output
      whose held value the body does not read is no fold: each point writes its own element.

    Folding over ``reduce`` axes may be done in any order and in partial sums (numerics contract),
    but for a leaf with the attribute ``wia.ordered``: each of its outputs starts from what it holds
    and takes one element after the other, the last ``reduce`` axis fastest, every operation
    rounded on its own, no product added without rounding in between.
    """

    name = "tile.compute"

    ivs = var_operand_def(IndexType())
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    kind = prop_def(StringAttr)
    level = prop_def(StringAttr)
    axes = prop_def(ArrayAttr[StringAttr])
    extents = prop_def(ArrayAttr[IntegerAttr])
    reduce_axes = prop_def(ArrayAttr[StringAttr])
    maps = prop_def(ArrayAttr[AffineMapAttr])
    bounds = prop_def(AffineMapAttr)
    limits = prop_def(ArrayAttr[IntegerAttr])
    padded = prop_def(ArrayAttr[IntegerAttr])
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        kind: LeafKind,
        *,
        axes: Sequence[tuple[str, int]],
        reduce_axes: Sequence[str] = (),
        ivs: Sequence[SSAValue] = (),
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        bounds: AffineMap | None = None,
        limits: Sequence[int] = (),
        padded: Sequence[bool] | None = None,
        level: LeafLevel = "thread",
        body: Region,
    ):
        bounds = bounds or AffineMap(len(axes), len(ivs), ())
        padded = padded if padded is not None else [False] * len(inputs)
        super().__init__(
            operands=[list(ivs), list(inputs), list(outputs)],
            properties={
                "kind": StringAttr(kind),
                "level": StringAttr(level),
                "axes": ArrayAttr([StringAttr(name) for name, _ in axes]),
                "extents": _integers([extent for _, extent in axes]),
                "reduce_axes": ArrayAttr([StringAttr(name) for name in reduce_axes]),
                "maps": ArrayAttr([AffineMapAttr(each) for each in maps]),
                "bounds": AffineMapAttr(bounds),
                "limits": _integers(limits),
                "padded": _integers([int(each) for each in padded]),
            },
            regions=[body],
        )

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the leaf's axes, in order (the dims of its maps)."""
        return tuple(name.data for name in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(extent.value.data for extent in self.extents)

    @property
    def reductions(self) -> tuple[bool, ...]:
        """For each axis, whether outputs are folded over it."""
        folded = {name.data for name in self.reduce_axes}
        return tuple(name in folded for name in self.axis_names)

    @property
    def input_maps(self) -> tuple[AffineMap, ...]:
        """One map for each input."""
        return tuple(each.data for each in self.maps.data[: len(self.inputs)])

    @property
    def output_maps(self) -> tuple[AffineMap, ...]:
        """One map for each output."""
        return tuple(each.data for each in self.maps.data[len(self.inputs) :])

    @property
    def limit_values(self) -> tuple[int, ...]:
        """The limit of each result of ``bounds``."""
        return tuple(limit.value.data for limit in self.limits)

    @property
    def is_padded(self) -> tuple[bool, ...]:
        """For each input, whether it reads as 0 outside its memref."""
        return tuple(bool(each.value.data) for each in self.padded)

    @property
    def folds(self) -> bool:
        """Whether the body also takes what the outputs hold."""
        return self.kind.data in ("reduce", "contract", "window")

    @property
    def is_ordered(self) -> bool:
        """Whether the fold is done in the order of its axes, one rounding for each operation."""
        return ORDERED in self.attributes

    @property
    def multiplies(self) -> bool:
        """Whether the leaf adds up products of a contraction, rounded once with the addition."""
        return self.kind.data in ("contract", "window") or PRODUCTS in self.attributes

    def print(self, printer: Printer) -> None:
        names = self.axis_names
        folded = {name.data for name in self.reduce_axes}
        axes = ", ".join(
            f"{name} = {size}{' reduce' if name in folded else ''}"
            for name, size in zip(names, self.sizes, strict=True)
        )
        printer.print_string(f" {self.kind.data} @{self.level.data} axes [{axes}] at (")
        ivs: list[str] = []
        for index, iv in enumerate(self.ivs):
            printer.print_string(", " if index else "")
            ivs.append(printer.print_ssa_value(iv))
        printer.print_string(")")
        bounds = zip(self.bounds.data.results, self.limit_values, strict=True)
        tests = [f"{expression_text(each, names, ivs)} < {limit}" for each, limit in bounds]
        if tests:
            printer.print_string(f" bounds ({', '.join(tests)})")
        for word, values, maps in (
            ("ins", self.inputs, self.input_maps),
            ("outs", self.outputs, self.output_maps),
        ):
            printer.print_string(f" {word}(")
            for index, (value, each) in enumerate(zip(values, maps, strict=True)):
                printer.print_string(", " if index else "")
                padded = word == "ins" and self.is_padded[index]
                printer.print_string("padded " if padded else "")
                printer.print_ssa_value(value)
                place = ", ".join(expression_text(e, names, ivs) for e in each.results)
                printer.print_string(f"[{place}] : ")
                printer.print_attribute(value.type)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = parser.parse_identifier()
        level = parser.parse_symbol_name().data
        parser.parse_characters("axes")
        folded: list[str] = []

        def axis() -> tuple[str, int]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            size = parser.parse_integer()
            if parser.parse_optional_keyword("reduce"):
                folded.append(name)
            return name, size

        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, axis)
        parser.parse_characters("at")
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        names = [name for name, _ in axes]
        ivs = [operand.operand_name for operand in operands]

        def expression() -> AffineExpr:
            return parse_expression(parser, names, ivs)

        def bound() -> tuple[AffineExpr, int]:
            read = expression()
            parser.parse_punctuation("<")
            return read, parser.parse_integer()

        def operand() -> tuple[bool, SSAValue, AffineMap]:
            padded = parser.parse_optional_keyword("padded") is not None
            value = parser.parse_unresolved_operand()
            index = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, expression)
            parser.parse_punctuation(":")
            resolved = parser.resolve_operand(value, parser.parse_type())
            return padded, resolved, AffineMap(len(axes), len(ivs), tuple(index))

        bounds: Sequence[tuple[AffineExpr, int]] = ()
        if parser.parse_optional_keyword("bounds"):
            bounds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, bound)
        parser.parse_characters("ins")
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        parser.parse_characters("outs")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        leaf = cls(
            cast(LeafKind, kind),
            axes=axes,
            reduce_axes=folded,
            ivs=[parser.resolve_operand(each, IndexType()) for each in operands],
            inputs=[value for _, value, _ in inputs],
            outputs=[value for _, value, _ in outputs],
            maps=[each for _, _, each in (*inputs, *outputs)],
            bounds=AffineMap(len(axes), len(ivs), tuple(each for each, _ in bounds)),
            limits=[limit for _, limit in bounds],
            padded=[padded for padded, _, _ in inputs],
            level=cast(LeafLevel, level),
            body=body,
        )
        leaf.attributes = dict(attributes.data) if attributes is not None else {}
        return leaf

    def verify_(self) -> None:
        if self.kind.data not in get_args(LeafKind):
            raise VerifyException(f"no leaf kind {self.kind.data!r}: {get_args(LeafKind)}")
        if self.level.data not in get_args(LeafLevel):
            raise VerifyException(f"no leaf level {self.level.data!r}: {get_args(LeafLevel)}")
        if len(self.maps) != len(self.inputs) + len(self.outputs):
            raise VerifyException("a leaf has one map for each input and output")
        for value, each in zip((*self.inputs, *self.outputs), self.maps, strict=True):
            affine = each.data
            if (affine.num_dims, affine.num_symbols) != (len(self.axes), len(self.ivs)):
                raise VerifyException("a leaf's maps take its axes and its induction variables")
            memref = cast("MemRefType[Attribute]", value.type)
            if len(affine.results) != len(memref.shape):
                raise VerifyException(f"a map has {len(affine.results)} results for {memref}")
        if len(self.bounds.data.results) != len(self.limits):
            raise VerifyException("a leaf has one limit for each bound")
        scalars = [*self.inputs, *(self.outputs if self.folds else ())]
        wanted = tuple(cast("MemRefType[Attribute]", v.type).element_type for v in scalars)
        if tuple(self.body.block.arg_types) != wanted:
            raise VerifyException(f"the body of a {self.kind.data} leaf takes {wanted}")
        last = self.body.block.last_op
        outs = tuple(cast("MemRefType[Attribute]", v.type).element_type for v in self.outputs)
        if not isinstance(last, YieldOp) or tuple(v.type for v in last.arguments) != outs:
            raise VerifyException("a leaf's body yields one element for each output")


def hint_of(axis: str) -> str:
    """An axis name as the name of an SSA value: ``i.0`` is ``%i0`` (xDSL's hints hold no dots)."""
    return axis.replace(".", "")


@cache
def _integer(value: int) -> IntegerAttr[IntegerType]:
    """An attribute is immutable, and making one is slow: each number has one."""
    return IntegerAttr(value, i64)


def _integers(values: Sequence[int]) -> ArrayAttr[IntegerAttr[IntegerType]]:
    return ArrayAttr([_integer(value) for value in values])


Tile = Dialect("tile", [ForOp, ComputeOp, YieldOp, CheckOp, PositionsOp, LookupOp], [])
