"""Kernels in the order in which they can be imported: a callee before its callers."""

from __future__ import annotations

from collections.abc import Mapping

from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.frontend import syntax
from wia_compiler.frontend.calls import KERNEL_PREFIX, names_called
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.vocabulary import ALIASES

Function = syntax.Kernel | syntax.Function


def callees_first(kernels: Mapping[str, Function], problems: Problems) -> list[Function]:
    """Every kernel and func, callees before callers; each cycle of calls is reported once."""
    calls = {name: _calls(kernel, kernels) for name, kernel in kernels.items()}
    done: dict[str, Function] = {}
    for root in kernels:
        path: list[str] = []
        pending: list[tuple[str, int]] = [(root, 0)] if root not in done else []
        while pending:
            name, next_call = pending.pop()
            if next_call == 0:
                path.append(name)
            callees = calls[name]
            while next_call < len(callees):
                callee = callees[next_call]
                next_call += 1
                called = callee.text.removeprefix(KERNEL_PREFIX)
                if called in path:
                    _report_cycle([*path[path.index(called) :], called], callee, problems)
                elif called not in done:
                    pending.extend([(name, next_call), (called, 0)])
                    break
            else:
                done[name] = kernels[name]
                path.pop()
    return list(done.values())


def _calls(kernel: Function, kernels: Mapping[str, Function]) -> list[syntax.Name]:
    """The first call of each other kernel (or itself); inside itself an op's name means the op."""
    found: dict[str, syntax.Name] = {}
    for callee in names_called(kernel):
        is_op = ALIASES.get(callee.text, callee.text) in DECLARATIONS
        called = callee.text.removeprefix(KERNEL_PREFIX)
        if called in kernels and not (callee.text == kernel.name.text and is_op):
            found.setdefault(called, callee)
    return list(found.values())


def _report_cycle(cycle: list[str], call: syntax.Name, problems: Problems) -> None:
    if len(cycle) == 2:
        message = f"kernel {cycle[0]!r} calls itself"
    else:
        message = f"kernels call each other in a circle: {' → '.join(cycle)}"
    problems.report(message, call.span, "kernels cannot recurse; write the steps out")
