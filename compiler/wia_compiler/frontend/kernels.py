"""``kernel NAME(…) { … }`` to a function."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func

from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.functions import enter, finish
from wia_compiler.frontend.scopes import names_set
from wia_compiler.frontend.statements import import_statements, leave_with_outputs

DEEPEST_BLOCK = 50
"""Levels of blocks in blocks that a kernel may have; an ``else if`` is a level too."""


def import_kernel(kernel: syntax.Kernel, body: Body) -> func.FuncOp | None:
    """The function of a kernel; ``None`` after its faults were reported."""
    faults = len(body.problems)
    if _is_nested_too_deeply(kernel, body):
        return None
    enter(body)
    reached = import_statements(kernel.body, body)
    if reached and any(p.role in ("output", "inout") for p in body.signature.parameters):
        leave_with_outputs(kernel.name.span, body, names_set(kernel.body))
    elif reached:
        _report_no_return(kernel, body)
    if len(body.problems) > faults:
        return None
    return finish(body, kernel.span)


def _is_nested_too_deeply(kernel: syntax.Kernel, body: Body) -> bool:
    """Whether blocks stand in blocks beyond what is imported; reported where it begins."""
    pending: list[tuple[Sequence[syntax.Statement], int]] = [(kernel.body, 0)]
    while pending:
        statements, depth = pending.pop()
        for statement in statements:
            if not isinstance(statement, syntax.If | syntax.For | syntax.While):
                continue
            if depth == DEEPEST_BLOCK:
                body.report(
                    f"blocks are nested deeper than {DEEPEST_BLOCK} levels",
                    statement.keyword,
                    "make a kernel of its own of the inner ones and call it",
                )
                return True
            pending.append((statement.body, depth + 1))
            if isinstance(statement, syntax.If):
                pending.append((statement.otherwise, depth + 1))
    return False


def _report_no_return(kernel: syntax.Kernel, body: Body) -> None:
    if body.signature.results:
        body.report(
            f"kernel {kernel.name.text!r} can end without a return",
            kernel.name.span,
            "return values on every way, at the end too",
        )
        return
    body.report(
        f"kernel {kernel.name.text!r} gives nothing back",
        kernel.name.span,
        "declare an output (output C: tensor) and set it, or return a value",
    )


def count_returned(kernel: syntax.Kernel) -> int:
    """How many values the returns of a kernel give."""
    returns = (node for node in syntax.walk(kernel.body) if isinstance(node, syntax.Return))
    return max((len(each.values) for each in returns), default=0)
