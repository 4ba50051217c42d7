"""The table of what a pass decided: every candidate with every number, taken or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from wia_compiler.base.record import Decision

from wia_notebook.views import units

_WORDS = {"vertical": "fused", "rewrite": "applied", "share": "shared"}
_OF = {"registers": "register_capacity", "ratio": "threshold"}
"""A number and the limit it is held against share a column."""
_TITLES = {"ratio": "benefit ÷ cost", "saved_bytes": "traffic saved"}
_FIRST = ("registers", "other_users", "saved_bytes", "ratio")
"""What a short table shows, in this order; the full one has every number."""


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
    """Candidate, kind, a column for each number that any row has, and the verdict."""
    found = list(dict.fromkeys(key for decision in decisions for key in decision.numbers))
    within = {_OF[key] for key in found if key in _OF} | {"other_user_names"}
    keys = [key for key in _FIRST if key in found]
    keys += [key for key in found if key not in keys and key not in within]
    titles = [_TITLES.get(key, key.removesuffix("_bytes").replace("_", " ")) for key in keys]
    columns = ("candidate", "kind", *titles, "decision")
    rows = tuple(
        (d.candidate, d.kind, *(_cell(d, key) for key in keys), verdict(d)) for d in decisions
    )
    few = sum(key in _FIRST for key in keys) or min(4, len(keys))
    short = (0, 1, *range(2, 2 + few), len(columns) - 1)
    return DecisionTable(columns, rows, tuple(decision.taken for decision in decisions), short)


def verdict(decision: Decision) -> str:
    """``✓ fused: …`` or ``✕ refused: …``; the sign says it without colour."""
    word = f"✓ {_WORDS.get(decision.kind, 'taken')}" if decision.taken else "✕ refused"
    return f"{word}: {decision.reason}" if decision.reason else word


def _cell(decision: Decision, key: str) -> str:
    value = decision.numbers.get(key)
    if value is None:
        return "–"
    text = _number(key, value)
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
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
