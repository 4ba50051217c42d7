"""Arguments of ops that are constants of the text: axes, shapes, dtypes, strides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import Parameter, Required
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.bound_names import NotAConstant
from wia_compiler.frontend.constants import NotConstant, constant
from wia_compiler.frontend.suggestions import DTYPE_ELSEWHERE, in_words, nearest


class Constants(Mapping[str, Value]):
    """The names of a body that are constants: numbers of the text and bound numbers."""

    def __init__(self, body: Body):
        self._body = body
        self._literals = body.literals

    def __getitem__(self, name: str) -> Value:
        if name in self._literals:
            return self._literals[name]
        body = self._body
        hidden = name in body.values or body.is_parameter(name)
        bound = None if hidden else body.bound.find(name)
        value = NotAConstant.ARRAY if bound is None else bound.constant
        if isinstance(value, NotAConstant):
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._literals)

    def __len__(self) -> int:
        return len(self._literals)


def attribute_value(name: str, parameter: Parameter, node: syntax.Expression, body: Body) -> Value:
    """The constant that ``node`` gives for a parameter of the op ``name``; faults are reported."""
    try:
        value = constant(node, Constants(body))
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
    write = "write a number, a string or a list"
    if not isinstance(node, syntax.Name | syntax.Value):
        return f"must be a constant; {error.reason}", write
    if node.text in body.values or body.is_parameter(node.text):
        return f"must be a constant; {node.text!r} is known only when the kernel runs", write
    if body.has_size(node.text):
        reason = f"{node.text!r} is a size, known only when the kernel meets its arguments"
        return f"must be a constant; {reason}", write
    if isinstance(node, syntax.Value):
        hint = f"give it a number in bindings=, or {write}"
        return f"must be a constant; {node.text!r} is not bound to one", hint
    near = DTYPE_ELSEWHERE.get(node.text) or nearest(node.text, [*DTYPES, *body.literals])
    hint = f"did you mean {near!r}?" if near else write
    return f"must be a constant; there is none named {node.text!r}", hint
