"""The ``wia`` dialect: one op class for each declaration, and what holds programs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.types import (
    TensorSpec,
    Value,
    from_attribute,
    spec_of,
    to_attribute,
    type_of,
)
from wia_compiler.dialects.wia.bound import BoundOp
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.declaration import (
    REQUIRED,
    InferenceError,
    OpDeclaration,
    Operands,
    operand_names,
)
from wia_compiler.dialects.wia.declarations import DECLARATIONS
from wia_compiler.dialects.wia.fuse_match import FuseMatchOp
from wia_compiler.dialects.wia.size import SizeOp

GIVEN = "given"
"""Attribute that lists which tensor parameters an op with optional ones was given."""


@irdl_attr_definition
class AnyTensorType(ParametrizedAttribute, TypeAttribute):
    """``!wia.tensor``: a tensor whose rank, sizes and dtype come with the arguments of a call."""

    name = "wia.tensor"


@irdl_attr_definition
class LiteralType(ParametrizedAttribute, TypeAttribute):
    """``!wia.literal``: a number of the text, which takes the dtype of what it meets."""

    name = "wia.literal"


class TensorOp(IRDLOperation):
    """An op of the language: operands, attributes, one result; what it means is its declaration.

    ``%2 = wia.matmul %0, %1 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>``
    """

    arguments = var_operand_def()
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$arguments attr-dict `:` functional-type($arguments, $result)"

    def __init__(
        self,
        operands: Sequence[SSAValue],
        attributes: Mapping[str, Attribute],
        result_type: Attribute,
    ):
        super().__init__(
            operands=[list(operands)], result_types=[result_type], attributes=dict(attributes)
        )

    @property
    def declaration(self) -> OpDeclaration:
        """What the op is: its row of ``DECLARATIONS``."""
        return DECLARATIONS[self.name.removeprefix("wia.")]

    @property
    def given(self) -> tuple[str, ...]:
        """The name of each operand: tensor parameters that were passed, in order.

        Those of a ``tensors`` parameter are numbered: ``tensors.0``, ``tensors.1`` …
        """
        given = self.attributes.get(GIVEN)
        if given is not None:
            return tuple(str(name) for name in cast(tuple[Value, ...], from_attribute(given)))
        return operand_names(self.declaration, len(self.arguments))

    @property
    def values(self) -> dict[str, Value]:
        """The attributes of the call as Python values, by parameter name."""
        return {
            name: from_attribute(attribute)
            for name, attribute in self.attributes.items()
            if name != GIVEN
        }

    def argument(self, name: str) -> SSAValue | None:
        """The operand passed for a parameter, or ``None`` where it was left out."""
        given = self.given
        return self.arguments[given.index(name)] if name in given else None

    @property
    def result_spec(self) -> TensorSpec:
        """Shape and dtype of the result; the op must be specialised."""
        return spec_of(self.result.type)

    @property
    def operand_specs(self) -> Operands:
        """Shapes and dtypes of the operands; the op must be specialised."""
        specs = [spec_of(value.type, value.name_hint or "") for value in self.arguments]
        return self.declaration.operands(self.given, specs)

    @property
    def is_specialized(self) -> bool:
        """Whether every operand and the result has a static tensor or scalar type."""
        types = [self.result.type, *(value.type for value in self.arguments)]
        return not any(isinstance(each, AnyTensorType | LiteralType) for each in types)

    @property
    def is_primitive(self) -> bool:
        """Whether the mid level can express the op as it is; it must be specialised."""
        return self.declaration.is_primitive(self.operand_specs, self.values)

    @property
    def flops(self) -> int:
        """Operations one execution performs, by the convention of the op's family."""
        return self.declaration.flops(self.operand_specs, self.values, self.result_spec)

    @property
    def moved_bytes(self) -> int:
        """Bytes that one execution must read and write, were it a kernel of its own."""
        return self.declaration.moved_bytes(self.operand_specs, self.values, self.result_spec)

    def verify_(self) -> None:
        if not self.is_specialized:
            return
        try:
            expected = self.declaration.infer(self.operand_specs, self.values)
        except InferenceError as error:
            raise VerifyException(error.message) from error
        if expected != self.result_spec:
            raise VerifyException(f"{self.name} yields {expected}, its type is {self.result_spec}")


def _op_class(declaration: OpDeclaration) -> type[TensorOp]:
    class_name = "".join(part.capitalize() for part in declaration.name.split("_")) + "Op"
    namespace = {
        "name": f"wia.{declaration.name}",
        "__doc__": declaration.doc,
        "__module__": __name__,
        "assembly_format": TensorOp.assembly_format,
    }
    return irdl_op_definition(type(class_name, (TensorOp,), namespace))


OPS: dict[str, type[TensorOp]] = {name: _op_class(row) for name, row in DECLARATIONS.items()}


def make_op(
    name: str,
    operands: Mapping[str, SSAValue] | Sequence[SSAValue],
    attributes: Mapping[str, Value] | None = None,
    *,
    location: LocationAttr | None = None,
) -> TensorOp:
    """An op of the dialect with defaults filled in and its result type inferred.

    ``operands`` is a mapping by parameter name where the op has optional ones, else a sequence.
    Those of a ``tensors`` parameter are a sequence, or named ``tensors.0``, ``tensors.1`` … The
    result is ``!wia.tensor`` as long as an operand is not specialised; otherwise
    ``InferenceError`` is raised where the rule of the op refuses the operands.
    """
    declaration = DECLARATIONS[name]
    variadic = any(p.kind == "tensors" for p in declaration.parameters)
    count = len(operands) if variadic else len(declaration.tensor_parameters)
    names = operand_names(declaration, count)
    if not isinstance(operands, Mapping):
        operands = dict(zip(names, operands, strict=False))
    ordered = [each for each in names if each in operands]
    given = dict(attributes or {})
    values: dict[str, Attribute] = {}
    for parameter in declaration.attribute_parameters:
        value = given.pop(parameter.name, parameter.default)
        if value is REQUIRED:
            raise InferenceError(f"{name} needs {parameter.name}")
        values[parameter.name] = to_attribute(value)
    if given:
        raise ValueError(f"{name} has no attribute {sorted(given)}")
    if any(p.kind == "optional_tensor" for p in declaration.parameters):
        values[GIVEN] = ArrayAttr([StringAttr(each) for each in ordered])
    op = OPS[name]([operands[each] for each in ordered], values, AnyTensorType())
    if all(not isinstance(v.type, AnyTensorType | LiteralType) for v in op.arguments):
        result = declaration.infer(op.operand_specs, op.values)
        op.result._type = type_of(result)  # pyright: ignore[reportPrivateUsage]
    if location is not None:
        op.location = location
    return op


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """One number in every element: ``%0 = wia.constant {value = 1.5 : f64} : tensor<4x8xf32>``.

    The value is the number as written (i64, f64 or i1); an element is that number in the result's
    dtype. A literal that has not met a dtype yet has type ``!wia.literal``.
    """

    name = "wia.constant"

    value = prop_def(Attribute)
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$value attr-dict `:` type($result)"

    def __init__(self, value: bool | int | float, result_type: Attribute):
        super().__init__(properties={"value": to_attribute(value)}, result_types=[result_type])

    @property
    def number(self) -> bool | int | float:
        """The value of every element."""
        return cast("bool | int | float", from_attribute(self.value))


@irdl_op_definition
class DeclareOp(IRDLOperation):
    """The value itself, with the type that the text gives it, to be checked when shapes are known.

    ``%1 = wia.declare %0 as "k" "A" dims ["M", 8 : i64, unit] dtype "f32" scope 0 : i64 : …``

    ``dims`` holds a size, a name (equal wherever it recurs in one ``scope``, that is one instance
    of one kernel) or unit for ``?``; a unit ``dims`` takes any rank, a unit ``dtype`` any dtype.
    """

    name = "wia.declare"

    input = operand_def()
    kernel = prop_def(StringAttr)
    parameter = prop_def(StringAttr)
    dims = prop_def(ArrayAttr[StringAttr | IntegerAttr | UnitAttr] | UnitAttr)
    dtype = prop_def(StringAttr | UnitAttr)
    scope = prop_def(IntegerAttr)
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = (
        "$input `as` $kernel $parameter `dims` $dims `dtype` $dtype `scope` $scope attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        value: SSAValue,
        *,
        kernel: str,
        parameter: str,
        dims: tuple[int | str | None, ...] | None,
        dtype: DType | None,
        scope: int,
        result_type: Attribute | None = None,
    ):
        super().__init__(
            operands=[value],
            result_types=[value.type if result_type is None else result_type],
            properties={
                "kernel": StringAttr(kernel),
                "parameter": StringAttr(parameter),
                "dims": to_attribute(dims),
                "dtype": to_attribute(dtype.name if dtype is not None else None),
                "scope": IntegerAttr(scope, i64),
            },
        )

    @property
    def declared_dims(self) -> tuple[int | str | None, ...] | None:
        """Sizes, names and ``None`` for ``?``; ``None`` where the rank is free."""
        return cast("tuple[int | str | None, ...] | None", from_attribute(self.dims))

    @property
    def declared_dtype(self) -> DType | None:
        """The dtype the text asks for, if any."""
        name = from_attribute(self.dtype)
        return DTYPES[name] if isinstance(name, str) else None


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a ``wia.fused`` region."""

    name = "wia.yield"

    arguments = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "$arguments attr-dict `:` type($arguments)"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[list(values)])


@irdl_op_definition
class FusedOp(IRDLOperation):
    """Ops that become one kernel: intermediates stay in registers, only the results are written.

    ::

        %r = wia.fused @fused_conv2d_relu (%x = %X : tensor<…>, %w = %W : tensor<…>) -> tensor<…> {
          %0 = wia.conv2d %x, %w …
          %1 = wia.relu %0 …
          wia.yield %1 : tensor<…>
        }
    """

    name = "wia.fused"

    arguments = var_operand_def()
    kernel_name = prop_def(StringAttr)
    body = region_def("single_block")
    outputs = var_result_def()

    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        kernel_name: str,
        arguments: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region | None = None,
    ):
        if body is None:
            body = Region(Block(arg_types=[value.type for value in arguments]))
            for inner, outer in zip(body.block.args, arguments, strict=True):
                inner.name_hint = outer.name_hint
        super().__init__(
            operands=[list(arguments)],
            properties={"kernel_name": StringAttr(kernel_name)},
            regions=[body],
            result_types=[list(result_types)],
        )

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """The values of the region that become the results."""
        last = self.body.block.last_op
        return tuple(last.operands) if isinstance(last, YieldOp) else ()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel_name)
        printer.print_string(" (")
        pairs = list(zip(self.body.block.args, self.arguments, strict=True))
        for index, (inner, outer) in enumerate(pairs):
            printer.print_string(", " if index else "")
            printer.print_ssa_value(inner)
            printer.print_string(" = ")
            printer.print_ssa_value(outer)
            printer.print_string(" : ")
            printer.print_attribute(outer.type)
        printer.print_string(") -> (")
        printer.print_list(self.outputs.types, printer.print_attribute)
        printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()

        def binding() -> tuple[Parser.UnresolvedArgument, SSAValue]:
            inner = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            outer = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return inner, parser.resolve_operand(outer, parser.parse_type())

        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        parser.parse_punctuation("->")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        arguments = [inner.resolve(outer.type) for inner, outer in bindings]
        body = parser.parse_region(arguments)
        return cls(name.data, [outer for _, outer in bindings], types, body)

    def verify_(self) -> None:
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("wia.fused ends with wia.yield")
        inner = tuple(value.type for value in self.yielded)
        if inner != tuple(self.outputs.types):
            raise VerifyException("wia.fused yields other types than its results have")
        if tuple(self.body.block.arg_types) != tuple(v.type for v in self.arguments):
            raise VerifyException("wia.fused's region takes other types than its operands have")


def label_of(op: Operation) -> str:
    """What a graph calls an op: its name without the dialect, or the name of its kernel."""
    if isinstance(op, FusedOp):
        return op.kernel_name.data
    if isinstance(op, ConstantOp):
        return str(op.number)
    return op.name.partition(".")[2]


Wia = Dialect(
    "wia",
    [
        *OPS.values(),
        BoundOp,
        ConditionOp,
        ConstantOp,
        DeclareOp,
        FuseMatchOp,
        FusedOp,
        SizeOp,
        YieldOp,
    ],
    [AnyTensorType, LiteralType],
)
