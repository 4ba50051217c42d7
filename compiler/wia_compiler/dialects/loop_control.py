"""Loops and branches of the loop level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.loop_elements import (
    ConditionOp,
    YieldOp,
    verify_index,
    verify_same,
    verify_scalar,
)
from wia_compiler.dialects.loop_text import (
    INDEX,
    parse_carried,
    parse_types,
    parse_value,
    print_carried,
    print_types,
    print_value,
)


def yielded_by(region: Region) -> tuple[SSAValue, ...]:
    """The values of the ``loop.yield`` that ends a region."""
    last = region.block.last_op
    return tuple(last.arguments) if isinstance(last, YieldOp) else ()


def verify_yield(region: Region, types: Sequence[Attribute], what: str) -> None:
    """Raise where a region does not end with a ``loop.yield`` of values of these types."""
    if not isinstance(region.block.last_op, YieldOp):
        raise VerifyException(f"{what} ends with loop.yield")
    given = yielded_by(region)
    if len(given) != len(types):
        raise VerifyException(f"{what} yields {len(given)} values, expected {len(types)}")
    for value, type_ in zip(given, types, strict=True):
        verify_same(value, type_, f"what {what} yields")


@irdl_op_definition
class ForOp(IRDLOperation):
    """A loop in order: ``%s = loop.for %i = %lo to %hi step %st axis "i" iter (…) { … }``.

    Its variable is %lo, %lo + %st … below %hi; a step is above 0. ``iter`` binds the values that it
    carries from one iteration to the next, which are its results.
    """

    name = "loop.for"

    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    carried = var_operand_def()
    axis = prop_def(StringAttr)
    body = region_def("single_block")
    outputs = var_result_def()

    def __init__(
        self,
        bounds: tuple[SSAValue, SSAValue, SSAValue],
        axis: str,
        carried: Sequence[SSAValue],
        body: Region,
    ):
        super().__init__(
            operands=[*bounds, list(carried)],
            properties={"axis": StringAttr(axis)},
            regions=[body],
            result_types=[[each.type for each in body.block.args[1:]]],
        )

    @property
    def variable(self) -> BlockArgument:
        """The loop's variable, an i64."""
        return self.body.block.args[0]

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """The carried values of the next iteration."""
        return yielded_by(self.body)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.variable)
        for word, value in ((" = ", self.lower), (" to ", self.upper), (" step ", self.step)):
            printer.print_string(word)
            print_value(printer, value)
        printer.print_string(" axis ")
        printer.print_attribute(self.axis)
        print_carried(printer, self.body.block.args[1:], self.carried)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        variable = parser.parse_argument(expect_type=False).resolve(INDEX)
        parser.parse_punctuation("=")
        lower = parse_value(parser)
        parser.parse_keyword("to")
        upper = parse_value(parser)
        parser.parse_keyword("step")
        step = parse_value(parser)
        parser.parse_keyword("axis")
        axis = parser.parse_str_literal()
        bindings = parse_carried(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inner = [argument.resolve(type_) for argument, type_, _ in bindings]
        body = parser.parse_region([variable, *inner])
        op = cls((lower, upper, step), axis, [outer for _, _, outer in bindings], body)
        op.attributes = dict(attributes.data) if attributes is not None else {}
        return op

    def verify_(self) -> None:
        for value in (self.lower, self.upper, self.step):
            verify_index(value, "a bound of a loop")
        types = [each.type for each in self.body.block.args]
        if len(types) != 1 + len(self.carried) or types[0] != INDEX:
            raise VerifyException("a loop's region takes its variable and what it carries")
        if types[1:] != list(self.outputs.types):
            raise VerifyException("a loop gives what it carries")
        for outer, inner in zip(self.carried, types[1:], strict=True):
            verify_same(outer, inner, "what a loop carries")
        verify_yield(self.body, self.outputs.types, "a loop")


@irdl_op_definition
class IfOp(IRDLOperation):
    """A branch: ``%r = loop.if %c : tensor<i1> -> (T) { … } else { … }``; the condition a bool."""

    name = "loop.if"

    condition = operand_def()
    then = region_def("single_block")
    otherwise = region_def("single_block")
    outputs = var_result_def()

    def __init__(
        self,
        condition: SSAValue,
        result_types: Sequence[Attribute],
        then: Region,
        otherwise: Region,
    ):
        super().__init__(
            operands=[condition], regions=[then, otherwise], result_types=[list(result_types)]
        )

    def yielded(self) -> list[tuple[SSAValue, SSAValue]]:
        """For each result the values of both ways."""
        return list(zip(yielded_by(self.then), yielded_by(self.otherwise), strict=True))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_value(printer, self.condition)
        print_types(printer, self.outputs.types)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.then)
        printer.print_string(" else ")
        printer.print_region(self.otherwise)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        condition = parse_value(parser)
        types = parse_types(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        then = parser.parse_region()
        parser.parse_keyword("else")
        op = cls(condition, types, then, parser.parse_region())
        op.attributes = dict(attributes.data) if attributes is not None else {}
        return op

    def verify_(self) -> None:
        verify_scalar(self.condition, "a condition")
        for region in (self.then, self.otherwise):
            verify_yield(region, self.outputs.types, "a branch")


@irdl_op_definition
class WhileOp(IRDLOperation):
    """Runs its body as long as a condition holds, which is computed before each time.

    ::

        %r = loop.while iter (%n : T = %n0 : T) { … loop.condition %c : tensor<i1> }
             do { ^bb0(%n : T): … loop.yield %m : T }
    """

    name = "loop.while"

    carried = var_operand_def()
    test = region_def("single_block")
    body = region_def("single_block")
    outputs = var_result_def()

    def __init__(self, carried: Sequence[SSAValue], test: Region, body: Region):
        super().__init__(
            operands=[list(carried)],
            regions=[test, body],
            result_types=[[each.type for each in body.block.args]],
        )

    @property
    def condition(self) -> SSAValue:
        """Whether the body runs once more."""
        last = self.test.block.last_op
        assert isinstance(last, ConditionOp)
        return last.condition

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """The carried values of the next iteration."""
        return yielded_by(self.body)

    def print(self, printer: Printer) -> None:
        print_carried(printer, self.test.block.args, self.carried)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.test, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        bindings = parse_carried(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inner = [argument.resolve(type_) for argument, type_, _ in bindings]
        test = parser.parse_region(inner)
        parser.parse_keyword("do")
        op = cls([outer for _, _, outer in bindings], test, parser.parse_region())
        op.attributes = dict(attributes.data) if attributes is not None else {}
        return op

    def verify_(self) -> None:
        if not isinstance(self.test.block.last_op, ConditionOp):
            raise VerifyException("the first region of a while ends with loop.condition")
        types = list(self.outputs.types)
        for region in (self.test, self.body):
            if [each.type for each in region.block.args] != types:
                raise VerifyException("both regions of a while take what it carries")
        for outer, inner in zip(self.carried, types, strict=True):
            verify_same(outer, inner, "what a while carries")
        verify_yield(self.body, types, "the body of a while")


def empty_branch() -> Region:
    """The region of a branch that does nothing."""
    return Region(Block([YieldOp()]))
