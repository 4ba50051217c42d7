"""Which argument of a call goes to which parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wia_compiler.frontend import syntax
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.suggestions import did_you_mean, in_words


@dataclass(frozen=True)
class Place:
    """One parameter as a call sees it."""

    name: str
    required: bool
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Callee:
    """What is called: ``usage`` shows how (``softmax(input, dim=-1)``)."""

    name: str
    places: tuple[Place, ...]
    usage: str

    def place(self, keyword: str) -> Place | None:
        """The parameter that a keyword means, by its name or an alias."""
        for place in self.places:
            if keyword == place.name or keyword in place.aliases:
                return place
        return None


def bind(
    callee: Callee, call: syntax.Call, problems: Problems
) -> dict[str, syntax.Expression] | None:
    """Arguments by parameter name, left out ones missing; ``None`` after faults were reported."""
    before = len(problems)
    bound: dict[str, syntax.Expression] = {}
    positional = [argument for argument in call.arguments if argument.keyword is None]
    if len(positional) > len(callee.places):
        most = len(callee.places)
        problems.report(
            f"{callee.name} takes {_count(most, callee)}, found {len(positional)}",
            positional[most].span,
            f"write {callee.usage}",
        )
    keyword_seen = False
    for index, argument in enumerate(call.arguments):
        keyword_seen = keyword_seen or argument.keyword is not None
        if argument.keyword is None and keyword_seen:
            problems.report(
                "an argument without a name cannot follow a named one",
                argument.span,
                f"write {callee.usage}",
            )
        elif argument.keyword is not None:
            _bind_keyword(callee, argument.keyword, argument.value, bound, problems)
        elif index < len(callee.places):
            bound[callee.places[index].name] = argument.value
    if len(problems) == before:
        _check_missing(callee, call, bound, problems)
    return bound if len(problems) == before else None


def _bind_keyword(
    callee: Callee,
    keyword: syntax.Word,
    value: syntax.Expression,
    bound: dict[str, syntax.Expression],
    problems: Problems,
) -> None:
    place = callee.place(keyword.text)
    if place is None:
        names = [name for place in callee.places for name in (place.name, *place.aliases)]
        hint = did_you_mean(keyword.text, names) or f"write {callee.usage}"
        problems.report(f"{callee.name} has no parameter {keyword.text!r}", keyword.span, hint)
    elif place.name in bound:
        problems.report(
            f"{place.name!r} of {callee.name} is given twice", keyword.span, f"write {callee.usage}"
        )
    else:
        bound[place.name] = value


def _check_missing(
    callee: Callee, call: syntax.Call, bound: dict[str, syntax.Expression], problems: Problems
) -> None:
    missing = [f"{p.name!r}" for p in callee.places if p.required and p.name not in bound]
    if missing:
        problems.report(
            f"{callee.name} needs {in_words(missing, 'and')}", call.span, f"write {callee.usage}"
        )


def _count(most: int, callee: Callee) -> str:
    least = sum(place.required for place in callee.places)
    counts: Sequence[str] = [str(most)] if least == most else [str(least), str(most)]
    return f"{' to '.join(counts)} argument{'s' if most != 1 else ''}"
