"""The loop level: loops, branches and single elements (dialect ``loop``).

Text that names elements (``for i in 0..N { C[i] = A[i] + B[i]; }``) is a ``loop.nest`` among the
tensor ops of a kernel: to them it is one op that takes arrays and scalars and gives new ones.
Inside, arrays are changed in place and everything happens in the order in which it is written.
Scalars are tensors of rank 0 with the ordinary ``wia`` ops, so that their rules for dtypes,
literals and rounding hold; variables that change are values carried by the loops.

::

    %C1 = loop.nest (%A : T = %A0 : T, inout %C : T = %C0 : T) -> (T) {
      loop.for %i = %lo to %hi step %one axis "i" {
        %a = loop.load %A[%i] : T -> tensor<f32>
        loop.store %a : tensor<f32>, %C[%i] : T
        loop.yield
      }
      loop.yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, Dialect, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.loop_arrays import LocalOp, OutputOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp, verify_yield, yielded_by
from wia_compiler.dialects.loop_elements import (
    ConditionOp,
    LoadOp,
    StoreOp,
    YieldOp,
    verify_same,
)
from wia_compiler.dialects.loop_text import (
    parse_binding,
    parse_types,
    print_binding,
    print_types,
)


@irdl_op_definition
class NestOp(IRDLOperation):
    """Statements on elements as one op of the high level.

    ``writes`` are the positions of the operands that it changes (``inout``); each has a result, the
    array as the nest leaves it. The other results are the scalars of ``loop.yield``. The operands
    themselves are left as they are.
    """

    name = "loop.nest"

    arguments = var_operand_def()
    writes = prop_def(ArrayAttr[IntegerAttr[IntegerType]])
    body = region_def("single_block")
    outputs = var_result_def()

    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        arguments: Sequence[SSAValue],
        writes: Sequence[int],
        result_types: Sequence[Attribute],
        body: Region,
    ):
        super().__init__(
            operands=[list(arguments)],
            properties={"writes": ArrayAttr([IntegerAttr(each, i64) for each in writes])},
            regions=[body],
            result_types=[list(result_types)],
        )

    @property
    def written(self) -> tuple[int, ...]:
        """Positions of the operands that the nest changes."""
        return tuple(each.value.data for each in self.writes)

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """The scalars that become results, after the arrays."""
        return yielded_by(self.body)

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        written = self.written
        pairs = zip(self.body.block.args, self.arguments, strict=True)
        for position, (inner, outer) in enumerate(pairs):
            printer.print_string(", " if position else "")
            printer.print_string("inout " if position in written else "")
            print_binding(printer, inner, outer)
        printer.print_string(")")
        print_types(printer, self.outputs.types)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def binding() -> tuple[bool, Parser.Argument, SSAValue]:
            is_written = parser.parse_optional_keyword("inout") is not None
            inner, type_, outer = parse_binding(parser)
            return is_written, inner.resolve(type_), outer

        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        types = parse_types(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        writes = [position for position, each in enumerate(bindings) if each[0]]
        body = parser.parse_region([each[1] for each in bindings])
        op = cls([each[2] for each in bindings], writes, types, body)
        op.attributes = dict(attributes.data) if attributes is not None else {}
        return op

    def verify_(self) -> None:
        if len(self.body.block.args) != len(self.arguments):
            raise VerifyException("a nest's region has an argument for each operand")
        for inner, outer in zip(self.body.block.args, self.arguments, strict=True):
            verify_same(outer, inner.type, "an operand of a nest")
        written = self.written
        if list(written) != sorted(set(written)) or any(
            not 0 <= each < len(self.arguments) for each in written
        ):
            raise VerifyException("writes lists positions of operands, each once, in order")
        if len(written) > len(self.outputs):
            raise VerifyException("a nest has a result for each array that it changes")
        for position, result in zip(written, self.outputs, strict=False):
            verify_same(result, self.arguments[position].type, "an array that a nest changes")
        verify_yield(self.body, self.outputs.types[len(written) :], "a nest")
        arguments = set(self.body.block.args)
        changed = {self.body.block.args[each] for each in written}
        for op in self.walk():
            if isinstance(op, StoreOp) and op.array in arguments and op.array not in changed:
                raise VerifyException("a nest stores to an operand that is not inout")


Loop = Dialect(
    "loop",
    [NestOp, ForOp, IfOp, WhileOp, LoadOp, StoreOp, LocalOp, OutputOp, YieldOp, ConditionOp],
    [],
)
