"""Calls of ops and of other kernels."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import OpDeclaration, Parameter, Required
from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.frontend import syntax
from wia_compiler.frontend.binding import Callee, Place, bind
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.constants import NotConstant, constant
from wia_compiler.frontend.kernel_calls import Evaluate, call_kernel
from wia_compiler.frontend.suggestions import DTYPE_ELSEWHERE, ELSEWHERE, in_words, nearest
from wia_compiler.frontend.vocabulary import ALIASES, PLANNED, signature_text


def call_values(call: syntax.Call, body: Body, evaluate: Evaluate) -> tuple[SSAValue, ...] | None:
    """What a call gives: one value of an op, or every output of a kernel; ``None`` after faults.

    ``evaluate`` gives the value of an argument.

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
        return call_kernel(body.signatures[name], call, body, evaluate)
    if operation is not None:
        value = _call_operation(name, operation, call, body, evaluate)
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
    name: str, operation: OpDeclaration, call: syntax.Call, body: Body, evaluate: Evaluate
) -> SSAValue | None:
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
        if node is None or _is_left_out(node, parameter, body):
            continue
        if parameter.kind == "attribute":
            attributes[parameter.name] = _attribute(name, parameter, node, body)
            continue
        value = evaluate(node)
        if value is None:
            silent = True
        else:
            operands[parameter.name] = value
    if silent or len(body.problems) > faults:
        return None
    return body.add_op(operation.name, operands, call.span, attributes)


def _is_left_out(node: syntax.Expression, parameter: Parameter, body: Body) -> bool:
    """Whether ``none`` stands for a parameter that can be left out."""
    none = isinstance(node, syntax.Name) and node.text == "none"
    return none and parameter.default is None and "none" not in body.values


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


def names_called(kernel: syntax.Kernel) -> Sequence[syntax.Name]:
    """Every name that a kernel calls, in text order."""
    calls = (node for node in syntax.walk(kernel.body) if isinstance(node, syntax.Call))
    return [call.callee for call in calls if isinstance(call.callee, syntax.Name)]
