"""``A[0:16, :]``, ``A[3]`` and ``A[i, :]`` among whole tensors: parts of a tensor as ops."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import Value
from wia_compiler.frontend import syntax
from wia_compiler.frontend.attributes import Constants
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.constants import NotConstant, constant

Evaluate = Callable[[syntax.Expression], SSAValue | None]


def part_value(node: syntax.Index, body: Body, evaluate: Evaluate) -> SSAValue | None:
    """The part of a tensor that subscripts name, as NumPy reads them; ``None`` after faults.

    ``A[0:16, :]`` becomes ``slice(A, starts=[0, none], stops=[16, none], steps=[1, 1])``. A number
    takes one place (``select``) and its axis is gone; one that is known only when the kernel runs
    is looked up by ``index_select``.
    """
    value = evaluate(node.base)
    starts: list[Value] = []
    stops: list[Value] = []
    steps: list[Value] = []
    gone: dict[int, int] = {}
    looked_up: dict[int, SSAValue] = {}
    faults = len(body.problems)
    for axis, subscript in enumerate(node.subscripts):
        bounds: tuple[Value, Value, Value] = (None, None, 1)
        if isinstance(subscript, syntax.Slice):
            bounds = _bounds(subscript, body, evaluate)
        else:
            place = _place(subscript, body)
            gone[axis] = place or 0
            if place is None:
                index = evaluate(subscript)
                if index is not None:
                    looked_up[axis] = index
        for column, bound in zip((starts, stops, steps), bounds, strict=True):
            column.append(bound)
    if value is None or len(body.problems) > faults:
        return None
    for axis, index in looked_up.items():
        value = _looked_up(value, axis, index, node, body)
        if value is None:
            return None
    if any(
        column != [plain] * len(column)
        for column, plain in ((starts, None), (stops, None), (steps, 1))
    ):
        attributes: dict[str, Value] = {
            "starts": tuple(starts),
            "stops": tuple(stops),
            "steps": tuple(steps),
        }
        value = body.add_op("slice", [value], node.span, attributes)
    for axis, place in reversed(gone.items()):
        if value is not None:
            value = body.add_op("select", [value], node.span, {"dim": axis, "index": place})
    return value


def is_element(node: syntax.Index, body: Body) -> bool:
    """Whether subscripts name one element at a place that is known only when the kernel runs."""
    subscripts = node.subscripts
    if any(isinstance(each, syntax.Slice) for each in subscripts):
        return False
    known = Constants(body)
    for each in subscripts:
        try:
            if not isinstance(each, syntax.Slice):
                constant(each, known)
        except NotConstant:
            return True
    return False


def _looked_up(
    value: SSAValue, axis: int, index: SSAValue, node: syntax.Index, body: Body
) -> SSAValue | None:
    row = body.add_op("reshape", [index], node.span, {"shape": (1,)})
    if row is None:
        return None
    operands = {"input": value, "index": row}
    return body.add_op("index_select", operands, node.span, {"dim": axis})


def _place(node: syntax.Expression, body: Body) -> int | None:
    """The whole number that a subscript is, or ``None`` where it is known only later."""
    try:
        value = constant(node, Constants(body))
    except NotConstant:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    body.report(
        f"an index is a whole number, found {_shown(value)}",
        node.span,
        "write a number such as 0, or a slice such as 0:16",
    )
    return 0


def _bounds(node: syntax.Slice, body: Body, evaluate: Evaluate) -> tuple[Value, Value, Value]:
    start, stop, step = (
        _bound(part, body, evaluate) for part in (node.start, node.stop, node.step)
    )
    return start, stop, 1 if step is None else step


def _bound(node: syntax.Expression | None, body: Body, evaluate: Evaluate) -> int | None:
    if node is None:
        return None
    try:
        value = constant(node, Constants(body))
    except NotConstant as error:
        if evaluate(node) is None:
            return None
        body.report(
            "the bounds of a slice are constants; this is known only when the kernel runs",
            error.node.span,
            "write numbers, or write the loop over elements out: for i in a..b { … }",
        )
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    body.report(
        f"the bounds of a slice are whole numbers, found {_shown(value)}",
        node.span,
        "write a slice such as 0:16",
    )
    return None


def _shown(value: Value) -> str:
    return (
        "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    )
