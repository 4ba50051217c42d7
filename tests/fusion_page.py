"""Runs the examples of docs/fusion.md: programs with arguments on the first line, decisions."""

import re
from pathlib import Path

from bare_target import BareTarget
from building import specs
from wia_compiler.base.errors import CompileError
from wia_compiler.base.record import Decision
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes.pipeline import compile_kernel

PAGE = Path(__file__).parents[1] / "docs" / "fusion.md"
_EXAMPLE = re.compile(r"```wia\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
_ARGUMENTS = re.compile(r"// arguments: (.*)\n")


def examples() -> list[tuple[str, str]]:
    """Each program of the page and what is shown under it."""
    return [(match[1], match[2]) for match in _EXAMPLE.finditer(PAGE.read_text(encoding="utf-8"))]


def shown(example: str) -> str:
    """What fusion and patterns decide for a program, or the error that it ends in."""
    match = _ARGUMENTS.match(example)
    assert match is not None
    arguments = dict(part.split("=") for part in match[1].split(", "))
    imported = import_program(parse(Source(example[match.end() :])))
    try:
        compiled = compile_kernel(imported, "k", specs(**arguments), BareTarget())
    except CompileError as error:
        return str(error)
    stages = [stage for stage in compiled.trace.stages if stage.name in ("patterns", "fusion")]
    return "\n".join(_line(decision) for stage in stages for decision in stage.decisions)


def _line(decision: Decision) -> str:
    sign = "✓" if decision.taken else "✕"
    line = f"{sign} {decision.kind} {decision.candidate}: {decision.reason}"
    would = decision.numbers.get("would_fuse_if")
    return f"{line}\n    would fuse if {would}" if would else line
