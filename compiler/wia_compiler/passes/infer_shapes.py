"""Gives every value its shape and dtype, from the arguments of one call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from wia_compiler.base.dtypes import BOOL, DTYPES, I64, DType
from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.record import Level
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import OutputOp
from wia_compiler.dialects.types import TensorSpec, spec_of, tensor_type, type_of
from wia_compiler.dialects.wia.bound import BoundOp
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.declaration import InferenceError, Operands
from wia_compiler.dialects.wia.literals import literal_dtype
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    LiteralType,
    TensorOp,
    make_op,
)
from wia_compiler.dialects.wia.size import SizeOp
from wia_compiler.passes.block_edges import BlockEdges, types_of_results
from wia_compiler.passes.block_types import BlockTypes, Known
from wia_compiler.passes.control_flow import edges_into, remove_unreachable
from wia_compiler.passes.counting import counting_note
from wia_compiler.passes.declared_sizes import DeclaredSizes
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import (
    entry_of,
    kernel_function,
    return_of,
    update_function_type,
)
from wia_compiler.passes.literal_values import LiteralValues
from wia_compiler.passes.local_tensors import place_local_tensors, place_zeros
from wia_compiler.passes.loop_bounds import type_bound
from wia_compiler.passes.loops.inference import Inference
from wia_compiler.passes.loops.specialise import specialise_nest
from wia_compiler.passes.target import ArraySpec


@dataclass(frozen=True)
class InferShapes:
    """Specialises a kernel to its arguments.

    ``%1 = wia.add %A, %one : (!wia.tensor, !wia.literal) -> !wia.tensor`` →
    ``%1 = wia.add %A, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>``. ``arguments`` are
    those of the kernel's function, in order. Scalars become tensors of rank 0, literals take the
    dtype of what they meet, and each ``wia.declare`` is checked and removed. Arguments of blocks
    get the type that every way to the block agrees on (``block_types``, ``block_edges``). Every
    fault is found; they are raised together as one ``CompileError``.
    """

    arguments: tuple[ArraySpec, ...]

    name: ClassVar[str] = "infer-shapes"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Specialise the context's kernel; raises ``CompileError``."""
        function = kernel_function(module, context.kernel)
        remove_unreachable(function.body)
        inference = _Inference(context)
        inference.specialize_arguments(function, self.arguments)
        place_local_tensors(function, inference.sizes, inference.specs, inference.set_spec)
        inference.specialize_blocks(function)
        edges = BlockEdges(inference.specs, inference.literals, inference.fault, inference.set_spec)
        for block, ways in edges_into(function.body).items():
            edges.enter(block, ways)
            for op in list(block.ops):
                inference.visit(op)
        edges.check(function)
        inference.check_results(function)
        inference.raise_faults()
        inference.literals.erase()
        update_function_type(function)
        context.decisions += counting_note(function, context)


@dataclass
class _Inference:
    context: PassContext
    specs: dict[SSAValue, TensorSpec] = field(default_factory=dict[SSAValue, TensorSpec])
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def __post_init__(self) -> None:
        self.literals = LiteralValues(self.fault)
        self.sizes = DeclaredSizes(self.context.kernel, self.fault)

    def specialize_arguments(self, function: FuncOp, arguments: tuple[ArraySpec, ...]) -> None:
        values = entry_of(function).args
        if len(values) != len(arguments):
            raise ValueError(f"{len(values)} arguments expected, {len(arguments)} given")
        for value, argument in zip(values, arguments, strict=True):
            spec = argument.spec
            if not isinstance(value.type, AnyTensorType):
                spec = self._check_typed(value, argument)
            self.set_spec(value, TensorSpec(spec.shape, spec.dtype, argument.name))

    def specialize_blocks(self, function: FuncOp) -> None:
        """Give every argument of a block after the first its type."""
        known: dict[SSAValue, Known] = dict(self.specs)
        for argument, spec in BlockTypes(function, known, types_of_results).solve().items():
            label = argument.name_hint or "a value"
            self.set_spec(argument, TensorSpec(spec.shape, spec.dtype, label))

    def _check_typed(self, value: BlockArgument, argument: ArraySpec) -> TensorSpec:
        """A scalar's type is its own, so is that of a kernel that was specialised before.

        Inference goes on with that type, so that one wrong argument is one fault.
        """
        wanted = spec_of(value.type)
        if argument.spec != wanted:
            kind = f"a scalar of {wanted.dtype}" if not wanted.rank else str(wanted)
            message = f"{argument.name} is {kind}, found {argument.spec}"
            declared = [use.operation for use in value.uses if isinstance(use.operation, DeclareOp)]
            span = next((span for op in declared for span in spans_of(op)), None)
            hint = f"pass {wanted}" if wanted.rank else f"pass one number of {wanted.dtype}"
            self.faults.append(Diagnostic(message, span, hint, self.context.source))
        return wanted

    def visit(self, op: Operation) -> None:
        match op:
            case ConstantOp() if isinstance(op.result.type, LiteralType | AnyTensorType):
                self.literals.add(op)
            case DeclareOp():
                self._visit_declare(op)
            case TensorOp():
                self._visit_tensor_op(op)
            case ConditionOp():
                self._visit_condition(op)
            case SizeOp():
                self._visit_size(op)
            case BoundOp():
                type_bound(op, self._lent)
            case OutputOp():
                place_zeros(op, self.sizes, self.set_spec)
            case NestOp():
                specialise_nest(op, self._lent)
            case _:
                pass

    @property
    def _lent(self) -> Inference:
        return Inference(
            self.specs, self.literals, self.faults, self.fault, self.visit, self.set_spec
        )

    def _visit_size(self, op: SizeOp) -> None:
        """A named size becomes the number that the types of the arguments give it."""
        size = self.sizes.size(op)
        if size is None:
            name = op.size.data
            hint = "declare an input whose type names it"
            return self.fault(op, f"size {name} is not known from the arguments", hint)
        constant = ConstantOp(size, tensor_type((), I64))
        constant.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(constant, op)
        constant.result.name_hint = op.result.name_hint or op.size.data
        self.specs[constant.result] = TensorSpec((), I64, op.size.data)
        op.result.replace_all_uses_with(constant.result)
        op.detach()
        op.erase()

    def _visit_declare(self, op: DeclareOp) -> None:
        value = op.input
        if value in self.literals:
            if op.declared_dtype is None:
                return self.fault(op, *_alone(op.parameter.data))
            value = self.literals.materialize(value, op.declared_dtype, op.parameter.data)
            self._note_materialized(value)
        spec = self.specs.get(value) if value is not None else None
        if value is None or spec is None:
            return None
        self.sizes.check(op, spec)
        if op.result.name_hint is not None and isinstance(value.owner, Operation):
            value.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(value)
        op.detach()
        op.erase()

    def _visit_condition(self, op: ConditionOp) -> None:
        """A branch is decided by one bool, of rank 0 from here on."""
        value: SSAValue | None = op.input
        if value in self.literals:
            number = value.owner.number if isinstance(value.owner, ConstantOp) else None
            if not isinstance(number, bool):
                hint = "write true or false, or compare something that is not a literal"
                return self.fault(op, "a condition is made of literals alone", hint)
            value = self.literals.materialize(value, BOOL, "a condition")
            self._note_materialized(value)
        spec = self.specs.get(value) if value is not None else None
        if value is None or spec is None:
            return
        if spec.dtype is not BOOL:
            hint = "compare it with a number, e.g. x > 0"
            return self.fault(op, f"a condition is one bool, found {spec}", hint)
        if spec.num_elements != 1:
            hint = "a branch is taken once; for any of them: reduce_max(cast(…, i8)) > 0"
            return self.fault(op, f"a condition is one bool, found {spec}", hint)
        if spec.rank:
            flat = make_op("reshape", [value], {"shape": ()}, location=op.location)
            block = op.parent
            assert block is not None
            block.insert_op_before(flat, op)
            value = flat.result
            self.set_spec(value, TensorSpec((), BOOL, spec.label))
        op.operands[0] = value

    def _visit_tensor_op(self, op: TensorOp) -> None:
        if not op.arguments:
            return self._infer(op)
        names = op.given
        dtypes: dict[str, DType | None] = {}
        for name, value in zip(names, op.arguments, strict=True):
            if value in self.literals:
                dtypes[name] = None
            elif value in self.specs:
                dtypes[name] = self.specs[value].dtype
            else:
                return None
        if op.declaration.name == "cast" and dtypes["input"] is None:
            return self._visit_cast_of_literal(op)
        dtype = literal_dtype(op.declaration, dtypes)
        if dtype is None:
            return self.literals.add(op)
        partner = next(
            self.specs[value].label
            for name, value in zip(names, op.arguments, strict=True)
            if dtypes[name] is dtype and value in self.specs
        )
        for index, value in enumerate(op.arguments):
            if value in self.literals:
                typed = self.literals.materialize(value, dtype, partner)
                if typed is None:
                    return None
                self._note_materialized(typed)
                op.operands[index] = typed
        return self._infer(op)

    def _visit_cast_of_literal(self, op: TensorOp) -> None:
        dtype = DTYPES.get(str(op.values["dtype"]))
        if dtype is None:
            return self.fault(
                op, f"no dtype {op.values['dtype']!r}", f"there are {', '.join(DTYPES)}"
            )
        typed = self.literals.materialize(op.arguments[0], dtype, "cast")
        if typed is None:
            return None
        self._note_materialized(typed)
        op.result.replace_all_uses_with(typed)
        op.detach()
        op.erase()

    def _infer(self, op: TensorOp) -> None:
        specs = [self.specs[value] for value in op.arguments]
        operands: Operands = op.declaration.operands(op.given, specs)
        try:
            spec = op.declaration.infer(operands, op.values)
        except InferenceError as error:
            self.fault(op, error.message, error.hint)
            return
        label = op.result.name_hint or f"result of {op.declaration.name}"
        self.set_spec(op.result, TensorSpec(spec.shape, spec.dtype, label))

    def _note_materialized(self, value: SSAValue | None) -> None:
        if value is not None and value not in self.specs:
            self.specs[value] = self.literals.spec(value)

    def set_spec(self, value: SSAValue, spec: TensorSpec) -> None:
        self.specs[value] = spec
        value._type = type_of(spec)  # pyright: ignore[reportPrivateUsage]

    def check_results(self, function: FuncOp) -> None:
        for value in return_of(function).operands:
            if value in self.literals and isinstance(value.owner, Operation):
                self.fault(value.owner, *_alone(value.name_hint or "the result"))

    def fault(self, op: Operation, message: str, hint: str | None) -> None:
        spans = spans_of(op)
        if len(spans) > 1:
            message = f"{message}, in the call on line {spans[1].line}"
        fault = Diagnostic(message, next(iter(spans), None), hint, self.context.source)
        if fault not in self.faults:
            self.faults.append(fault)

    def raise_faults(self) -> None:
        if self.faults:
            raise CompileError(sorted(self.faults, key=lambda fault: fault.span or ()))


def _alone(name: str) -> tuple[str, str]:
    return (
        f"{name} is made of literals alone, which leaves its dtype open",
        "write the dtype, e.g. cast(1.0, f32)",
    )
