"""Calls of other kernels of the program."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import func
from xdsl.ir import SSAValue

from wia_compiler.base.signature import KernelSignature, ParameterDeclaration
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import dtype_of, element_type
from wia_compiler.dialects.wia.literals import literal_fault
from wia_compiler.dialects.wia.ops import (
    DECLARATIONS,
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    LiteralType,
)
from wia_compiler.frontend import syntax
from wia_compiler.frontend.binding import Callee, Place, bind
from wia_compiler.frontend.body import Body, literal_of

Evaluate = Callable[[syntax.Expression], SSAValue | None]
"""The value of an argument, or ``None`` after its faults were reported."""


def call_kernel(
    signature: KernelSignature, call: syntax.Call, body: Body, evaluate: Evaluate
) -> tuple[SSAValue, ...] | None:
    """Every output of a call of a kernel; ``None`` after faults were reported.

    The operands have exactly the types of the callee's arguments, as ``func.call`` demands; where
    a value has another one, a ``wia.declare`` stands between, which shape inference checks.
    """
    if _passes_outputs(signature, call, body):
        return None
    places = tuple(Place(p.name, p.default is None) for p in signature.passed)
    usage = f"{signature.name}({', '.join(_usage(p) for p in signature.passed)})"
    if signature.name in DECLARATIONS and signature.span is not None:
        usage += f"; the kernel of line {signature.span.line} hides the op of that name"
    bound = bind(Callee(signature.name, places, usage), call, body.problems)
    function = body.functions.get(signature.name)
    if bound is None:
        return None
    arguments: list[SSAValue | None] = []
    for parameter in signature.passed:
        node = bound.get(parameter.name)
        if node is None and parameter.default is not None:
            default = body.add(ConstantOp(parameter.default, LiteralType()), call.span).result
            arguments.append(_declared(default, parameter, signature, call.span, body))
        if node is None:
            continue
        value = evaluate(node)
        converted = None if value is None else _argument(value, parameter, signature, node, body)
        arguments.append(converted)
    known = [argument for argument in arguments if argument is not None]
    if function is None or len(known) < len(arguments):
        return None
    known.extend(body.bound_array(p.name) for p in signature.inputs if p.role == "bound")
    op = func.CallOp(signature.name, known, list(function.function_type.outputs))
    return tuple(body.add(op, call.span).results)


def _usage(parameter: ParameterDeclaration) -> str:
    if parameter.default is None:
        return parameter.name
    return f"{parameter.name}={str(parameter.default).lower()}"


def _passes_outputs(signature: KernelSignature, call: syntax.Call, body: Body) -> bool:
    """Report a call in C's manner, with the outputs as arguments."""
    outputs = {p.name for p in signature.parameters if p.role == "output"}
    inputs = [p.name for p in signature.passed]
    named = [a for a in call.arguments if a.keyword is not None and a.keyword.text in outputs]
    all_given = len(call.arguments) == len(inputs) + len(outputs) > len(inputs)
    extra = [a for a in call.arguments[len(inputs) :] if a.keyword is None] if all_given else []
    for argument in (*named, *extra)[:1]:
        results = ", ".join(signature.output_names)
        body.report(
            f"the outputs of {signature.name} are its results, not arguments",
            argument.span,
            f"write {results} = {signature.name}({', '.join(inputs)})",
        )
        return True
    return False


def _argument(
    value: SSAValue,
    parameter: ParameterDeclaration,
    callee: KernelSignature,
    node: syntax.Expression,
    body: Body,
) -> SSAValue | None:
    """The value as its parameter's type: a call's operands have exactly the callee's types."""
    literal = literal_of(value)
    shown = str(literal).lower()
    if parameter.role != "scalar":
        if isinstance(value.type, LiteralType):
            body.report(
                f"{parameter.name!r} of {callee.name} is a tensor, found the number {shown}",
                node.span,
                f"declare {parameter.name} as a scalar (f32), or pass cast({shown}, f32)",
            )
            return None
        return _declared(value, parameter, callee, node.span, body)
    dtype = parameter.type.dtype
    fault = literal_fault(literal, dtype) if literal is not None and dtype is not None else None
    if fault is not None:
        body.report(
            f"{parameter.name!r} of {callee.name} is {dtype}: {fault[0]}",
            node.span,
            f"pass a number that {dtype} holds",
        )
        return None
    computed = not isinstance(value.type, AnyTensorType | LiteralType)
    if computed and dtype_of(value.type) != dtype:
        body.report(
            f"{parameter.name!r} of {callee.name} is {dtype}, found {dtype_of(value.type)}",
            node.span,
            f"convert it: cast(…, {dtype})",
        )
        return None
    return _declared(value, parameter, callee, node.span, body)


def _declared(
    value: SSAValue,
    parameter: ParameterDeclaration,
    callee: KernelSignature,
    span: Span,
    body: Body,
) -> SSAValue:
    """The value under the type of a parameter; what the type says is checked in the callee."""
    scalar, dtype = parameter.role == "scalar", parameter.type.dtype
    wanted = element_type(dtype) if scalar and dtype is not None else AnyTensorType()
    if value.type == wanted:
        return value
    op = DeclareOp(
        value,
        kernel=callee.name,
        parameter=parameter.name,
        dims=() if scalar else None,
        dtype=dtype if scalar else None,
        scope=0,
        result_type=wanted,
    )
    return body.add(op, span).result
