"""The table of what a pass decided: every candidate with every number, taken or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from wia_compiler.base.record import Decision
from wia_notebook.views import units


@dataclass(frozen=True)
class DecisionTable:
    """Column titles, and a row of cells for each decision; ``taken`` goes with the rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    taken: tuple[bool, ...]


def decision_table(decisions: Sequence[Decision]) -> DecisionTable:
    """Candidate, kind, one column for each number that any row has, and the verdict with its reason."""
    keys = list(dict.fromkeys(key for decision in decisions for key in decision.numbers))
    columns = ("candidate", "kind", *(key.replace("_", " ") for key in keys), "decision")
    rows = tuple(
        (
            decision.candidate,
            decision.kind,
            *(_cell(decision, key) for key in keys),
            verdict(decision),
        )
        for decision in decisions
    )
    return DecisionTable(columns, rows, tuple(decision.taken for decision in decisions))


def verdict(decision: Decision) -> str:
    """``✓ fused: …`` or ``✕ refused: …``; the sign says it without colour."""
    word = "✓ taken" if decision.taken else "✕ refused"
    return f"{word}: {decision.reason}" if decision.reason else word


def _cell(decision: Decision, key: str) -> str:
    value = decision.numbers.get(key)
    if value is None:
        return "–"
    if key.endswith("bytes") and isinstance(value, int | float):
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
