"""``kernel NAME(…) { … }`` to a function."""

from __future__ import annotations

from xdsl.dialects import func

from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.functions import enter, finish
from wia_compiler.frontend.scopes import names_set
from wia_compiler.frontend.statements import import_statements, leave_with_outputs


def import_kernel(kernel: syntax.Kernel, body: Body) -> func.FuncOp | None:
    """The function of a kernel; ``None`` after its faults were reported."""
    faults = len(body.problems)
    enter(body)
    reached = import_statements(kernel.body, body)
    if reached and any(p.role in ("output", "inout") for p in body.signature.parameters):
        leave_with_outputs(kernel.name.span, body, names_set(kernel.body))
    elif reached:
        _report_no_return(kernel, body)
    if len(body.problems) > faults:
        return None
    return finish(body, kernel.span)


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
