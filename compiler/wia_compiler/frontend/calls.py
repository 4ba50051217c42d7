"""Calls of ops and of other kernels."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.signature import KernelSignature, ParameterDeclaration
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import Value, dtype_of, element_type, tensor_type
from wia_compiler.dialects.wia.declaration import OpDeclaration, Parameter, Required
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
from wia_compiler.frontend.constants import NotConstant, constant
from wia_compiler.frontend.literals import refusal
from wia_compiler.frontend.suggestions import DTYPE_ELSEWHERE, ELSEWHERE, in_words, nearest
from wia_compiler.frontend.vocabulary import ALIASES, PLANNED, signature_text


def call_values(call: syntax.Call, body: Body, depth: int) -> tuple[SSAValue, ...] | None:
    """What a call gives: one value of an op, or every output of a kernel; ``None`` after faults.

    A kernel of the program hides an op of the same name, except inside itself: a kernel named
    softmax may well call softmax.
    """
    callee = call.callee
    if not isinstance(callee, syntax.Name):
        body.report("only ops and kernels can be called", callee.span, "write NAME(…)")
        return None
    name = callee.text
    operation = DECLARATIONS.get(ALIASES.get(name, name))
    if name in body.values or any(name == p.name for p in body.signature.parameters):
        body.report(f"{name!r} is a value and cannot be called", callee.span, _rename(operation))
        return None
    if name in body.signatures and not (name == body.signature.name and operation is not None):
        return _call_kernel(body.signatures[name], call, body, depth)
    if operation is not None:
        value = _call_operation(name, operation, call, body, depth)
        return None if value is None else (value,)
    body.report(*_unknown(callee, body))
    return None


def _rename(operation: OpDeclaration | None) -> str | None:
    return None if operation is None else f"it hides the op {operation.name}; give it another name"


def _unknown(callee: syntax.Name, body: Body) -> tuple[str, Span, str | None]:
    name = callee.text
    if name in PLANNED:
        hint = "write it out with the ops that docs/language.md lists"
        return f"op {name!r} is not available yet", callee.span, hint
    if name in DTYPES:
        return f"{name!r} is a dtype and cannot be called", callee.span, f"write cast(x, {name})"
    known = [*body.signatures, *DECLARATIONS, *ALIASES]
    near = ELSEWHERE.get(name) or nearest(name, known)
    hint = f"did you mean {near!r}?" if near else "%%wia? and docs/language.md list the ops"
    return f"no op or kernel named {name!r}", callee.span, hint


def _call_operation(
    name: str, operation: OpDeclaration, call: syntax.Call, body: Body, depth: int
) -> SSAValue | None:
    from wia_compiler.frontend.expressions import add_op, value_of

    places = tuple(
        Place(p.name, isinstance(p.default, Required), p.aliases) for p in operation.parameters
    )
    bound = bind(Callee(name, places, signature_text(operation, name)), call, body.problems)
    if bound is None:
        return None
    faults = len(body.problems)
    operands: dict[str, SSAValue] = {}
    attributes: dict[str, Value] = {}
    silent = False
    for parameter in operation.parameters:
        node = bound.get(parameter.name)
        if node is None:
            continue
        if parameter.kind == "attribute":
            attributes[parameter.name] = _attribute(name, parameter, node, body)
            continue
        value = value_of(node, body, depth + 1)
        if value is None:
            silent = True
        else:
            operands[parameter.name] = value
    if silent or len(body.problems) > faults:
        return None
    return add_op(operation.name, operands, call.span, body, attributes)


def _attribute(name: str, parameter: Parameter, node: syntax.Expression, body: Body) -> Value:
    try:
        value = constant(node, body.literals)
    except NotConstant as error:
        message, hint = _not_constant(error, body)
        body.report(f"{parameter.name!r} of {name} {message}", error.node.span, hint)
        return None
    if parameter.name == "dtype" and value not in DTYPES:
        near = DTYPE_ELSEWHERE.get(str(value)) or nearest(str(value), DTYPES)
        hint = f"did you mean {near!r}?" if near else f"dtypes are {in_words(DTYPES)}"
        body.report(f"no dtype {value!r}", node.span, hint)
        return value
    if isinstance(parameter.default, float) and isinstance(value, int):
        value = float(value)
    expected = _expected_kind(parameter.default, value)
    if expected is not None:
        body.report(f"{parameter.name!r} of {name} is {expected}, found {value!r}", node.span)
    return value


def _expected_kind(default: Value | Required, value: Value) -> str | None:
    for kind, words in ((bool, "true or false"), (float, "a number"), (str, "a string")):
        if isinstance(default, kind) and not isinstance(value, kind):
            return words
    return None


def _not_constant(error: NotConstant, body: Body) -> tuple[str, str | None]:
    node = error.node
    if not isinstance(node, syntax.Name):
        return f"must be a constant; {error.reason}", "write a number, a string or a list"
    if node.text in body.values or any(node.text == p.name for p in body.signature.parameters):
        return (
            f"must be a constant; {node.text!r} is known only when the kernel runs",
            "write a number, a string or a list",
        )
    near = DTYPE_ELSEWHERE.get(node.text) or nearest(node.text, [*DTYPES, *body.literals])
    hint = f"did you mean {near!r}?" if near else "write a number, a string or a list"
    return f"must be a constant; there is none named {node.text!r}", hint


def _call_kernel(
    signature: KernelSignature, call: syntax.Call, body: Body, depth: int
) -> tuple[SSAValue, ...] | None:
    from wia_compiler.frontend.expressions import value_of

    if _passes_outputs(signature, call, body):
        return None
    places = tuple(Place(p.name, p.default is None) for p in signature.inputs)
    usage = f"{signature.name}({', '.join(_usage(p) for p in signature.inputs)})"
    if signature.name in DECLARATIONS and signature.span is not None:
        usage += f"; the kernel of line {signature.span.line} hides the op of that name"
    bound = bind(Callee(signature.name, places, usage), call, body.problems)
    function = body.functions.get(signature.name)
    if bound is None:
        return None
    arguments: list[SSAValue | None] = []
    for parameter in signature.inputs:
        node = bound.get(parameter.name)
        if node is None:
            arguments.append(_scalar_constant(parameter.default or 0, parameter, signature, call.span, body))
            continue
        value = value_of(node, body, depth + 1)
        converted = None if value is None else _argument(value, parameter, signature, node, body)
        arguments.append(converted)
    known = [argument for argument in arguments if argument is not None]
    if function is None or len(known) < len(arguments):
        return None
    op = func.CallOp(signature.name, known, list(function.function_type.outputs))
    return tuple(body.add(op, call.span).results)


def _usage(parameter: ParameterDeclaration) -> str:
    if parameter.default is None:
        return parameter.name
    return f"{parameter.name}={str(parameter.default).lower()}"


def _passes_outputs(signature: KernelSignature, call: syntax.Call, body: Body) -> bool:
    """Report a call in C's manner, with the outputs as arguments."""
    outputs = {p.name for p in signature.parameters if p.role == "output"}
    inputs = [p.name for p in signature.inputs]
    named = [a for a in call.arguments if a.keyword is not None and a.keyword.text in outputs]
    all_given = len(call.arguments) == len(signature.parameters) > len(inputs)
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
    dtype = parameter.type.dtype
    literal = literal_of(value)
    if parameter.role != "scalar":
        if isinstance(value.type, LiteralType):
            body.report(
                f"{parameter.name!r} of {callee.name} is a tensor, found the number {literal}",
                node.span,
                f"declare {parameter.name} as a scalar (f32), or pass cast({literal}, f32)",
            )
            return None
        return _declared(value, parameter, callee, node.span, body)
    if literal is not None:
        return _scalar_constant(literal, parameter, callee, node.span, body)
    if not isinstance(value.type, AnyTensorType) and dtype_of(value.type) != dtype:
        body.report(
            f"{parameter.name!r} of {callee.name} is {dtype}, found {dtype_of(value.type)}",
            node.span,
            f"convert it: cast(…, {dtype})",
        )
        return None
    return _declared(value, parameter, callee, node.span, body)


def _scalar_constant(
    number: bool | int | float,
    parameter: ParameterDeclaration,
    callee: KernelSignature,
    span: Span,
    body: Body,
) -> SSAValue | None:
    dtype = parameter.type.dtype
    assert dtype is not None, "scalars have a dtype"
    reason = refusal(number, dtype)
    if reason is not None:
        body.report(f"{parameter.name!r}: {reason[0]}", span, reason[1])
        return None
    value = body.add(ConstantOp(number, tensor_type((), dtype)), span).result
    return _declared(value, parameter, callee, span, body)


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


def names_called(kernel: syntax.Kernel) -> Sequence[syntax.Name]:
    """Every name that a kernel calls, in text order."""
    calls = (node for node in syntax.walk(kernel.body) if isinstance(node, syntax.Call))
    return [call.callee for call in calls if isinstance(call.callee, syntax.Name)]
