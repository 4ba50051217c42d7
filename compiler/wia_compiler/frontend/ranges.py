"""Loops that count down as loops that count up: C++ and Python have them, the language has not."""

from __future__ import annotations

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax


def rounds_down(
    start: syntax.Expression, stop: syntax.Expression, step: int, span: Span
) -> syntax.Expression:
    """How often ``start, start - step, …`` stays above ``stop``: ``start - stop`` by steps of 1."""
    if isinstance(stop, syntax.Number):
        distance = _added(start, -int(stop.value), span)
    else:
        distance = _binary("-", start, stop, span)
    if step == 1:
        return distance
    rounded_up = syntax.Group(_added(distance, step - 1, span), span)
    return _binary("//", rounded_up, syntax.Number(step, str(step), span), span)


def value_down(start: syntax.Expression, counter: str, step: int, span: Span) -> syntax.Expression:
    """``start - counter * step``: the value of the loop's variable in round ``counter``."""
    gone: syntax.Expression = syntax.Name(counter, span)
    if step != 1:
        gone = _binary("*", gone, syntax.Number(step, str(step), span), span)
    return _binary("-", start, gone, span)


def _added(left: syntax.Expression, number: int, span: Span) -> syntax.Expression:
    if number == 0:
        return left
    if isinstance(left, syntax.Number):
        total = int(left.value) + number
        return syntax.Number(total, str(total), span)
    sign = "+" if number > 0 else "-"
    return _binary(sign, left, syntax.Number(abs(number), str(abs(number)), span), span)


def _binary(
    operator: str, left: syntax.Expression, right: syntax.Expression, span: Span
) -> syntax.Binary:
    return syntax.Binary(syntax.Word(operator, span), left, right, span)
