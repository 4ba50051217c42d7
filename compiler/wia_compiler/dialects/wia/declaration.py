"""What one op of the language is: parameters, shape and dtype rule, cost and documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from wia_compiler.base.record import Family
from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.formula import Formula

ParameterKind = Literal["tensor", "tensors", "optional_tensor", "attribute"]
Access = Literal["pointwise", "view", "rows", "contraction", "free"]


class Required(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"


REQUIRED = Required.REQUIRED


@dataclass(frozen=True)
class Parameter:
    """One parameter of an op, named, ordered and defaulted as in PyTorch's functional API.

    ``tensor`` is an operand, ``tensors`` any number of them (last), ``optional_tensor`` an operand
    that may be left out, ``attribute`` a constant of the language. ``aliases`` are other names
    that a call may use for it (``axis`` for ``dim``).
    """

    name: str
    kind: ParameterKind = "tensor"
    default: Value | Required = REQUIRED
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operands:
    """The tensor operands of one call by parameter name; absent optional ones are missing.

    Those of a ``tensors`` parameter are ``tensors.0``, ``tensors.1`` … in order.
    """

    by_name: Mapping[str, TensorSpec]

    def __getitem__(self, name: str) -> TensorSpec:
        return self.by_name[name]

    def get(self, name: str) -> TensorSpec | None:
        """The operand of that name, or ``None`` where the call left it out."""
        return self.by_name.get(name)

    @property
    def all(self) -> tuple[TensorSpec, ...]:
        """Every operand in parameter order."""
        return tuple(self.by_name.values())


Attributes = Mapping[str, Value]
Infer = Callable[[Operands, Attributes], TensorSpec]
Flops = Callable[[Operands, Attributes, TensorSpec], int]


@dataclass(frozen=True)
class Example:
    """One call of an op in the language, over inputs that the documentation prints with it."""

    call: str
    inputs: tuple[tuple[str, object], ...]


class InferenceError(Exception):
    """Shapes, dtypes or attributes that an op cannot take; ``hint`` says what to do.

    Rules raise it with the labels of the operands in the message; the pass that infers shapes
    turns it into a diagnostic at the op's place in the source.
    """

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class OpDeclaration:
    """One op: everything the compiler and its documentation need to know of it.

    ``operator`` is how the language also spells it (``+``). ``literal_operands`` are parameters
    that may be a number literal, which then takes the dtype of the other operands. ``primitive``
    ops are those that the mid level can express, but for calls of which ``composite_when`` holds;
    the others are decomposed into them, by ``formula`` where it is given, which then is their
    meaning too unless the reference has one of its own. ``flops`` counts floating-point or
    integer operations, with the convention in its family's file; ``read_bytes`` what is read of
    the operands, where that is not all of them once.

    ``access`` says how an element of the result depends on the operands: ``pointwise`` on the
    elements at the same place (NumPy's broadcasting), ``view`` on one element at an affine index,
    ``rows`` on the row along the axes ``dim`` that holds it, ``contraction`` as a matrix product
    or a convolution, ``free`` in a way of its own. Fusion and nests go by it.

    ``rule`` says in words what shapes and dtypes it takes and gives, ``numerics`` how it rounds
    and what it makes of special values, where its ``doc`` does not.
    """

    name: str
    family: Family
    parameters: tuple[Parameter, ...]
    infer: Infer
    flops: Flops
    doc: str
    operator: str | None = None
    literal_operands: tuple[str, ...] = ()
    primitive: bool = True
    composite_when: Callable[[Operands, Attributes], bool] | None = None
    formula: Formula | None = None
    access: Access = "pointwise"
    read_bytes: Flops | None = None
    rule: str = ""
    numerics: str = ""
    example: Example | None = None

    @property
    def tensor_parameters(self) -> tuple[Parameter, ...]:
        """The parameters that are operands."""
        return tuple(p for p in self.parameters if p.kind != "attribute")

    @property
    def attribute_parameters(self) -> tuple[Parameter, ...]:
        """The parameters that are attributes."""
        return tuple(p for p in self.parameters if p.kind == "attribute")

    def is_primitive(self, operands: Operands, attributes: Attributes) -> bool:
        """Whether the mid level can express this call as it is."""
        if not self.primitive or self.composite_when is None:
            return self.primitive
        return not self.composite_when(operands, attributes)

    def parameter(self, name: str) -> Parameter | None:
        """The parameter that a call may name so (alias or own name), or ``None``."""
        for parameter in self.parameters:
            if name == parameter.name or name in parameter.aliases:
                return parameter
        return None

    def operands(self, names: Sequence[str], specs: Sequence[TensorSpec]) -> Operands:
        """Operands by parameter name, given which parameters were passed, in order."""
        return Operands(dict(zip(names, specs, strict=True)))

    def moved_bytes(self, operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        """Bytes that one execution must read and write: what it reads of each operand, once."""
        read = self.read_bytes or _all_operands
        return read(operands, attributes, result) + result.size_bytes

    def with_example(self, call: str, **inputs: object) -> OpDeclaration:
        """The declaration with a worked example: ``with_example("relu(x)", x=[-1.0, 2.0])``.

        An input is a number or nested lists of numbers, i32 for whole numbers, f32 for others and
        bool for bools, or a pair of a dtype's name and those.
        """
        return replace(self, example=Example(call, tuple(inputs.items())))


def operand_names(declaration: OpDeclaration, count: int) -> tuple[str, ...]:
    """The names of so many operands in order: those of a ``tensors`` parameter are numbered."""
    parameters = declaration.tensor_parameters
    if parameters and parameters[-1].kind == "tensors":
        return tuple(f"{parameters[-1].name}.{number}" for number in range(count))
    return tuple(parameter.name for parameter in parameters[:count])


def _all_operands(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return sum(spec.size_bytes for spec in operands.all)
