"""Gives the values of a ``loop.nest`` their types, once those of its operands are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.dtypes import BOOL, F64, I64
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp, OutputOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import ConditionOp, LoadOp, StoreOp, YieldOp
from wia_compiler.dialects.loop_types import COMPARISONS, Known, NestTypes, OpenNumber
from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.ops import DeclareOp, TensorOp
from wia_compiler.passes.loops.access_ranges import check_accesses
from wia_compiler.passes.loops.element_types import ElementTypes
from wia_compiler.passes.loops.inference import Inference
from wia_compiler.passes.loops.operands import inline_constants
from wia_compiler.passes.loops.outputs import type_output
from wia_compiler.passes.loops.values import integer_of


def specialise_nest(nest: NestOp, inference: Inference) -> None:
    """Type a nest, check its accesses, and give an output that only it describes its shape.

    ``%x = loop.load %A[%i] : !wia.tensor -> !wia.tensor`` becomes
    ``%x = loop.load %A[%i] : tensor<8xf32> -> tensor<f32> {proven}``; a literal that a loop starts
    from becomes a constant of the dtype that the loop carries. Faults are reported to
    ``inference``: a dtype that does not fit, an index that is no integer or that is certain to lie
    outside its array.
    """
    _Specialisation(nest, inference).run()


def nest_result_types(nest: NestOp, operands: Sequence[Known | None]) -> list[TensorSpec | None]:
    """The types of a nest's results from those of its operands, without rewriting anything."""
    types = NestTypes(nest, list(operands))
    types.solve()
    arrays = [operands[position] for position in nest.written]
    scalars = [types.result(index) for index in range(len(nest.yielded))]
    known = (*arrays, *scalars)
    return [each if isinstance(each, TensorSpec) else None for each in known]


class _Specialisation(ElementTypes):
    def __init__(self, nest: NestOp, inference: Inference):
        super().__init__(nest, inference)
        self.known: Mapping[SSAValue, Known] = {}

    def run(self) -> None:
        """Type the nest from its operands inwards."""
        before = len(self.inference.faults)
        for constant in inline_constants(self.nest):
            spec = spec_of(constant.result.type, constant.result.name_hint or "")
            self.inference.specs[constant.result] = spec
        operands = [self._operand(value) for value in self.nest.arguments]
        for known, value in zip(operands, self.nest.arguments, strict=True):
            if known is None and not isinstance(value.owner, OutputOp):
                return  # a fault was reported where it is made
        types = NestTypes(self.nest, operands)
        types.solve()
        self.known, self.elements = types.known, types.elements
        block = self.nest.body.block
        for position in range(len(block.args)):
            self._type_argument(position)
        self._block(block)
        self._yields(self.nest.yielded, block.last_op, self.nest.outputs[len(self.nest.written) :])
        if len(self.inference.faults) > before:
            return
        self._type_arrays()
        if len(self.inference.faults) == before:
            check_accesses(self.nest, self.inference.fault)

    def _type_arrays(self) -> None:
        block = self.nest.body.block
        for position, outer in enumerate(self.nest.arguments):
            if isinstance(outer.owner, OutputOp):
                dtype = self.elements.get(block.args[position])
                type_output(self.nest, position, outer.owner, dtype, self.inference)
        for position, result in zip(self.nest.written, self.nest.outputs, strict=False):
            spec = self.inference.specs.get(block.args[position])
            if spec is not None:
                self._set(result, spec)

    def _operand(self, value: SSAValue) -> Known | None:
        spec = self.inference.specs.get(value)
        if spec is not None:
            return spec
        if value in self.inference.literals:
            return OpenNumber("float")
        if isinstance(value.owner, OutputOp):
            dtype = value.owner.declared_dtype
            return None if dtype is None else TensorSpec((), dtype)
        return None

    def _type_argument(self, position: int) -> None:
        argument = self.nest.body.block.args[position]
        outer, known = self.nest.arguments[position], self.known.get(argument)
        if outer in self.inference.literals:
            if not isinstance(known, TensorSpec):
                return
            typed = self.inference.typed(outer, known.dtype, argument.name_hint or "a value")
            if typed is not None:
                self.nest.operands[position] = typed
                self._set(argument, known)
        elif not isinstance(outer.owner, OutputOp):
            self._set(argument, self.inference.specs[outer])

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            match op:
                case ForOp():
                    self._for(op)
                case WhileOp():
                    self._while(op)
                case IfOp():
                    self._if(op)
                case LoadOp():
                    self.load(op)
                case StoreOp():
                    self.store(op)
                case LocalOp():
                    self.local(op)
                case YieldOp() | ConditionOp():
                    pass
                case _:
                    self._simple(op)

    def _simple(self, op: Operation) -> None:
        if isinstance(op, TensorOp | DeclareOp):
            for value in op.operands:
                spec = self.inference.specs.get(value)
                if spec is not None and spec.rank:
                    name = spec.label or "a value"
                    self._fault(
                        op,
                        f"{name} is {spec}, expected one element of it inside a loop over elements",
                        f"write {name}[{', '.join('ijklmn'[: spec.rank])}]",
                    )
                    return
        if isinstance(op, TensorOp) and op.declaration.name in COMPARISONS:
            self._compare_numbers(op)
        self.inference.visit(op)

    def _compare_numbers(self, op: TensorOp) -> None:
        """Numbers of the text that are compared with each other are i64, or f64."""
        kinds = [
            known.kind for v in op.arguments if isinstance(known := self.known.get(v), OpenNumber)
        ]
        if len(kinds) < len(op.arguments) or "bool" in kinds:
            return
        dtype = F64 if "float" in kinds else I64
        for position, value in enumerate(op.arguments):
            typed = self.inference.typed(value, dtype, "a comparison")
            if typed is not None:
                op.operands[position] = typed

    def _for(self, op: ForOp) -> None:
        for position, what in enumerate(("the start", "the end", "the step")):
            self.whole(op, position, f"{what} of a loop")
        step = integer_of(op.step)
        if step is not None and step <= 0:
            hint = "count upwards and compute the index: A[N - 1 - i]"
            self._fault(
                op, f"the step of loop {op.axis.data!r} is {step}, expected 1 or more", hint
            )
        self._set(op.variable, TensorSpec((), I64, op.axis.data))
        self._carried(op, 3, (op.body.block.args[1:],))
        self._block(op.body.block)
        self._yields(op.yielded, op.body.block.last_op, op.outputs)

    def _while(self, op: WhileOp) -> None:
        self._carried(op, 0, (op.test.block.args, op.body.block.args))
        self._block(op.test.block)
        last = op.test.block.last_op
        assert last is not None
        self._condition(last, 0)
        self._block(op.body.block)
        self._yields(op.yielded, op.body.block.last_op, op.outputs)

    def _carried(
        self, op: ForOp | WhileOp, first: int, arguments: Sequence[Sequence[SSAValue]]
    ) -> None:
        for position, result in enumerate(op.outputs):
            known = self.known.get(result)
            if not isinstance(known, TensorSpec):
                self._open(op, result)
                continue
            name = result.name_hint or "a variable"
            spec = TensorSpec(known.shape, known.dtype, name)
            for each in (result, *(args[position] for args in arguments)):
                self._set(each, spec)
            self.inference.fit(
                op, first + position, known.dtype, name, f"{name} is {known.dtype} in the loop"
            )

    def _if(self, op: IfOp) -> None:
        self._condition(op, 0)
        for region in (op.then, op.otherwise):
            self._block(region.block)
        for result in op.outputs:
            known = self.known.get(result)
            if isinstance(known, TensorSpec):
                self._set(result, TensorSpec(known.shape, known.dtype, result.name_hint or ""))
            else:
                self._open(op, result)
        for region in (op.then, op.otherwise):
            last = region.block.last_op
            assert isinstance(last, YieldOp)
            self._yields(last.arguments, last, op.outputs, "in the other branch")

    def _condition(self, op: Operation, position: int) -> None:
        self.inference.fit(op, position, BOOL, "a condition", "a condition is a bool")

    def _yields(
        self,
        values: Sequence[SSAValue],
        op: Operation | None,
        results: Sequence[SSAValue],
        where: str = "before the loop",
    ) -> None:
        assert op is not None
        for position, (value, result) in enumerate(zip(values, results, strict=True)):
            known = self.known.get(result) or self.known.get(value)
            name = result.name_hint or "a value"
            if isinstance(known, TensorSpec):
                self.inference.fit(
                    op, position, known.dtype, name, f"{name} is {known.dtype} {where}"
                )
                if result not in self.inference.specs:
                    self._set(result, TensorSpec(known.shape, known.dtype, name))
            elif isinstance(known, OpenNumber):
                self._open(op, result)

    def _open(self, op: Operation, result: SSAValue) -> None:
        known = self.known.get(result)
        if known is None and not isinstance(op, YieldOp):
            return
        self._fault(
            op,
            f"{result.name_hint or 'a value'} is made of literals alone, which leaves its dtype "
            "open",
            f"write the dtype: let {result.name_hint or 'x'}: f32 = …;",
        )

    def _set(self, value: SSAValue, spec: TensorSpec) -> None:
        self.inference.set_spec(value, spec)

    def _fault(self, op: Operation, message: str, hint: str | None) -> None:
        self.inference.fault(op, message, hint)
