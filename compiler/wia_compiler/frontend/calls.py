"""Calls of ops and of other kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import OpDeclaration, Parameter, Required
from wia_compiler.dialects.wia.fuse_match import FuseMatchOp
from wia_compiler.dialects.wia.ops import DECLARATIONS, AnyTensorType
from wia_compiler.frontend import syntax
from wia_compiler.frontend.attributes import attribute_value
from wia_compiler.frontend.binding import Callee, Place, bind
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.kernel_calls import Evaluate, call_kernel
from wia_compiler.frontend.suggestions import ELSEWHERE, nearest
from wia_compiler.frontend.vocabulary import ALIASES, signature_text

OP_PREFIX = "tensor."
"""How the IR notation spells an op, whatever kernels there are: ``tensor.matmul``."""
KERNEL_PREFIX = "@"
"""How the IR notation spells a kernel or func, whatever ops there are: ``call @f(%x)``."""
CONSTANT = "tensor.constant"
"""How the IR notation spells a number of the text: ``tensor.constant 1.5``."""
_FUSED = "fused"
"""How the names of kernels begin that only the rewrite of a pattern knows."""


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
    call = _spread(call, body)
    if _reports_unbound(call, body, evaluate):
        return None
    name = callee.text
    if name.startswith(KERNEL_PREFIX):
        return _call_by_symbol(name.removeprefix(KERNEL_PREFIX), call, body, evaluate)
    if name == CONSTANT:
        return _constant(call, body, evaluate)
    dotted = name.startswith(OP_PREFIX)
    name = name.removeprefix(OP_PREFIX)
    operation = DECLARATIONS.get(ALIASES.get(name, name))
    hides = not dotted and not body.in_notation
    if hides and (name in body.values or body.is_parameter(name)):
        body.report(f"{name!r} is a value and cannot be called", callee.span, _rename(operation))
        return None
    itself = name == body.signature.name and operation is not None
    if name in body.signatures and not dotted and not itself:
        return call_kernel(body.signatures[name], call, body, evaluate)
    if operation is not None:
        value = _call_operation(name, operation, call, body, evaluate)
        return None if value is None else (value,)
    if body.in_rewrite and name.startswith(_FUSED):
        return _fuse_match(name, call, body, evaluate)
    body.report(*_unknown(callee, body))
    return None


def _constant(call: syntax.Call, body: Body, evaluate: Evaluate) -> tuple[SSAValue, ...] | None:
    nodes = [argument.value for argument in call.arguments]
    if len(nodes) != 1 or not isinstance(nodes[0], syntax.Number | syntax.Boolean):
        body.report(f"{CONSTANT} is one number", call.span, f"write {CONSTANT} 1.5")
        return None
    value = evaluate(nodes[0])
    return None if value is None else (value,)


def _rename(operation: OpDeclaration | None) -> str | None:
    return None if operation is None else f"it hides the op {operation.name}; give it another name"


def _call_by_symbol(
    name: str, call: syntax.Call, body: Body, evaluate: Evaluate
) -> tuple[SSAValue, ...] | None:
    if name in body.signatures:
        return call_kernel(body.signatures[name], call, body, evaluate)
    near = nearest(name, body.signatures)
    hint = f"did you mean @{near}?" if near else "a func of that name must stand in the same text"
    body.report(f"no func named @{name}", call.callee.span, hint)
    return None


def _unknown(callee: syntax.Name, body: Body) -> tuple[str, Span, str | None]:
    name = callee.text
    if name in DTYPES:
        return f"{name!r} is a dtype and cannot be called", callee.span, f"write cast(x, {name})"
    if "." in name:
        plain = name.rpartition(".")[2]
        if plain == "constant":
            return f"no op named {name!r}", callee.span, f"write {CONSTANT} 1.5"
        near = nearest(plain, DECLARATIONS)
        hint = f"write {OP_PREFIX}{near or 'NAME'}, or {near or 'NAME'}(…)"
        return f"no op named {name!r}", callee.span, hint
    known = [*body.signatures, *DECLARATIONS, *ALIASES]
    near = ELSEWHERE.get(name) or nearest(name, known)
    hint = f"did you mean {near!r}?" if near else _where_ops_are(name)
    return f"no op or kernel named {name!r}", callee.span, hint


def _where_ops_are(name: str) -> str:
    if name.startswith(_FUSED):
        return "a pattern in the same text makes it: rewrite: %out = " + name + "(…)"
    return f"write a kernel {name} in the same text, or take an op of docs/ops.md"


def _spread(call: syntax.Call, body: Body) -> syntax.Call:
    """The call with the elements of bound tuples in place of the tuples.

    ``batch_norm(%0, %bn1_params)`` with a tuple of four arrays becomes
    ``batch_norm(%0, %bn1_params.0, …, %bn1_params.3)``. A tuple of numbers stays: it is an
    attribute such as a stride.
    """
    arguments: list[syntax.Argument] = []
    for argument in call.arguments:
        node = argument.value
        count = _elements_of(node, body) if argument.keyword is None else 0
        if not count or not isinstance(node, syntax.Name | syntax.Value):
            arguments.append(argument)
            continue
        for place in range(count):
            element = replace(node, text=f"{node.text}.{place}")
            arguments.append(replace(argument, value=element))
    return replace(call, arguments=tuple(arguments))


def _elements_of(node: syntax.Expression, body: Body) -> int:
    """How many elements a name of a bound tuple stands for in a call; else 0."""
    if not isinstance(node, syntax.Name | syntax.Value):
        return 0
    if node.text in body.values or body.is_parameter(node.text):
        return 0
    bound = body.bound.find(node.text)
    elements = bound.elements if bound is not None else ()
    return len(elements) if any(each.sort != "number" for each in elements) else 0


def _reports_unbound(call: syntax.Call, body: Body, evaluate: Evaluate) -> bool:
    """Whether arguments are free values that nothing binds.

    They may stand for tuples: how many arguments there are is not known before.
    """
    values = [a.value for a in call.arguments if isinstance(a.value, syntax.Value)]
    unknown = [v for v in values if v.text not in body.values and v.text not in body.unset]
    free = [v for v in unknown if body.bound.find(v.text) is None]
    for value in free:
        evaluate(value)
    return bool(free)


def _call_operation(
    name: str, operation: OpDeclaration, call: syntax.Call, body: Body, evaluate: Evaluate
) -> SSAValue | None:
    if operation.tensor_parameters and operation.tensor_parameters[-1].kind == "tensors":
        call = _gathered(operation.tensor_parameters[-1], call, body)
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
            attributes[parameter.name] = attribute_value(name, parameter, node, body)
            continue
        for place, part in _operand_nodes(parameter, node):
            value = evaluate(part)
            if value is None:
                silent = True
            else:
                operands[place] = value
    if silent or len(body.problems) > faults:
        return None
    return body.add_op(operation.name, operands, call.span, attributes)


def _gathered(parameter: Parameter, call: syntax.Call, body: Body) -> syntax.Call:
    """``concat(a, b, dim=1)`` as ``concat([a, b], dim=1)``: leading arguments are one list."""
    positional = [each for each in call.arguments if each.keyword is None]
    if not positional or isinstance(positional[0].value, syntax.ListOf):
        return call
    span = positional[0].span.cover(positional[-1].span)
    items = syntax.ListOf(tuple(each.value for each in positional), span)
    rest = tuple(each for each in call.arguments if each.keyword is not None)
    return replace(call, arguments=(syntax.Argument(None, items, span), *rest))


def _operand_nodes(
    parameter: Parameter, node: syntax.Expression
) -> Sequence[tuple[str, syntax.Expression]]:
    """The operands that an argument is, by the names ``make_op`` knows them under."""
    if parameter.kind != "tensors":
        return [(parameter.name, node)]
    items = node.items if isinstance(node, syntax.ListOf) else (node,)
    return [(f"{parameter.name}.{place}", item) for place, item in enumerate(items)]


def _is_left_out(node: syntax.Expression, parameter: Parameter, body: Body) -> bool:
    """Whether ``none`` stands for a parameter that can be left out."""
    none = isinstance(node, syntax.Name) and node.text == "none"
    return none and parameter.default is None and "none" not in body.values


def _fuse_match(
    name: str, call: syntax.Call, body: Body, evaluate: Evaluate
) -> tuple[SSAValue, ...] | None:
    """``fused_…(%x, %w)`` in a rewrite: the ops of the match as one kernel of that name."""
    for argument in call.arguments:
        if argument.keyword is not None:
            body.report(
                f"{name} takes the free values of the match, found {argument.keyword.text!r}=",
                argument.span,
                "what it computes is said by the match; write the values alone",
            )
            return None
    values = [evaluate(argument.value) for argument in call.arguments]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    op = FuseMatchOp(name, known, [AnyTensorType()])
    return tuple(body.add(op, call.span).outputs)


def names_called(function: syntax.Kernel | syntax.Function) -> Sequence[syntax.Name]:
    """Every name that a kernel or func calls, in text order."""
    root = function.body if isinstance(function, syntax.Kernel) else function.blocks
    calls = (node for node in syntax.walk(root) if isinstance(node, syntax.Call))
    return [call.callee for call in calls if isinstance(call.callee, syntax.Name)]
