"""The table of what a pass decided: every candidate with every number, taken or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from wia_compiler.base.record import Decision

from wia_notebook.views import units

_WORDS = {
    "vertical": "fused",
    "horizontal": "merged",
    "fold": "folded",
    "pattern": "rewritten",
    "rewrite": "applied",
    "share": "shared",
    "expand": "written out",
}
_OF = {"registers": "register_capacity", "ratio": "threshold"}
"""A number and the limit it is held against share a column."""
_TITLES = {
    "ratio": "benefit ÷ cost",
    "saved_bytes": "traffic saved",
    "saved_launches": "launches saved",
}
_FIRST = ("registers", "other_users", "saved_bytes", "ratio")
"""What a short table shows, in this order; the full one has every number."""
_ALWAYS = (*_FIRST, "saved_launches", "benefit", "cost")
"""Numbers with a column of their own though some decisions lack them; the rest share one."""
_CONDITIONS = {"would_fuse_if": "would fuse if", "would_fire_if": "would fire if"}
"""What would have to be otherwise stands in the decision's cell, on a line of its own."""


@dataclass(frozen=True)
class DecisionTable:
    """Column titles, and a row of cells for each decision; ``taken`` goes with the rows.

    ``short`` are the columns to show where there is little room.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    taken: tuple[bool, ...]
    short: tuple[int, ...]


def decision_table(decisions: Sequence[Decision]) -> DecisionTable:
    """Candidate, kind, the numbers, and the verdict.

    A number has a column of its own where all decisions have it, where it is one of ``_ALWAYS``, or
    where there are few in all; the others stand with their names in a column ``other numbers``. A
    verdict that names a condition has two lines.
    """
    found = list(dict.fromkeys(key for decision in decisions for key in decision.numbers))
    within = {_OF[key] for key in found if key in _OF} | {"other_user_names", *_CONDITIONS}
    listed = [key for key in found if key not in within]
    own = [key for key in listed if all(key in d.numbers for d in decisions) or key in _ALWAYS]
    if len(own) < len(listed) <= len(_ALWAYS):
        own = listed
    keys = [key for key in _ALWAYS if key in own]
    keys += [key for key in own if key not in keys]
    rest = [key for key in listed if key not in own]
    titles = [_TITLES.get(key, _title(key)) for key in keys]
    columns = ("candidate", "kind", *titles, *(["other numbers"] if rest else []), "decision")
    rows = tuple(
        (
            d.candidate,
            d.kind,
            *(_cell(d, key) for key in keys),
            *([_others(d, rest)] if rest else []),
            "\n".join([verdict(d), *_condition(d)]),
        )
        for d in decisions
    )
    few = sum(key in _FIRST for key in keys) or min(4, len(keys))
    short = (0, 1, *range(2, 2 + few), len(columns) - 1)
    return DecisionTable(columns, rows, tuple(decision.taken for decision in decisions), short)


def _title(key: str) -> str:
    return key.removesuffix("_bytes").replace("_", " ")


def _others(decision: Decision, keys: Sequence[str]) -> str:
    """``sweeps 3, times computed 64``; a dash where a decision has none of them."""
    present = [key for key in keys if key in decision.numbers]
    return (
        ", ".join(f"{_title(key)} {_number(key, decision.numbers[key])}" for key in present) or "–"
    )


def _condition(decision: Decision) -> list[str]:
    """``would fuse if …``, for a refused candidate that knows."""
    found = [(words, decision.numbers.get(key)) for key, words in _CONDITIONS.items()]
    return [f"{words} {text}" for words, text in found if text]


def verdict(decision: Decision) -> str:
    """``✓ fused: …`` or ``✕ refused: …``; the sign says it without colour."""
    word = f"✓ {_WORDS.get(decision.kind, 'taken')}" if decision.taken else "✕ refused"
    return f"{word}: {decision.reason}" if decision.reason else word


def _cell(decision: Decision, key: str) -> str:
    value = decision.numbers.get(key)
    if value is None:
        return "–"
    traffic = key in ("benefit", "cost") and "ratio" in decision.numbers
    text = _number("bytes" if traffic else key, value)
    limit = decision.numbers.get(_OF.get(key, ""))
    if limit is not None:
        sign = "/" if key == "registers" else "≥" if decision_holds(value, limit) else "<"
        text = f"{text} {sign} {_number(key, limit)}"
    names = decision.numbers.get("other_user_names") if key == "other_users" else None
    return f"{text} ({names})" if names else text


def decision_holds(value: float | int | str, limit: float | int | str) -> bool:
    """Whether a number reaches its limit; texts never do."""
    return not isinstance(value, str) and not isinstance(limit, str) and value >= limit


def _number(key: str, value: float | int | str) -> str:
    if key.endswith("bytes") and not isinstance(value, str):
        return units.size(value)
    return units.number(value)


def decisions_html(decisions: Sequence[Decision]) -> str:
    """The table as HTML."""
    table = decision_table(decisions)
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html(cell: str) -> str:
    return "<br>".join(escape(line) for line in cell.split("\n"))
