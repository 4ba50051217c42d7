"""``wia-opt``: runs passes, named on a ``RUN`` line, over a module and prints what they leave.

``// RUN: wia-opt --infer-shapes=A:4x8xf32,B:8xf32 --fusion %s | filecheck %s``

A pass is named as its file is, with dashes (``fold_constants.py`` is ``--fold-constants``); those
of a target have its folder before them (``--cpu/schedule``). ``--apply-patterns`` takes its
patterns from the file: functions ``@NAME.match`` and ``@NAME.rewrite`` are one.
``--facts=register_capacity=8`` changes facts of the target, ``--kernel=f`` names the kernel (else
the last function),
``--decisions`` prints decisions instead of IR. ``not wia-opt …`` expects an error and prints it.
"""

import dataclasses
import importlib
import inspect
import re
import shlex

from bare_target import BARE_FACTS
from building import specs
from wia_compiler.base.errors import WiaError
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.apply_patterns import ApplyPatterns
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.kernel_function import functions_of
from wia_compiler.passes.pipeline import high_passes
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

_RUN = re.compile(r"//\s*RUN:(?P<command>.*)$", re.MULTILINE)


def run_lines(text: str) -> list[str]:
    """The commands of a file's ``RUN`` lines."""
    return [match["command"].strip() for match in _RUN.finditer(text)]


def run(command: str, text: str) -> str:
    """What a command prints for the module in ``text``."""
    words = shlex.split(command.partition("|")[0])
    fails = words[0] == "not"
    name, *options = words[1:] if fails else words
    if name != "wia-opt":
        raise ValueError(f"RUN lines run wia-opt, found {name!r}")
    try:
        output = _run([option for option in options if option != "%s"], text)
    except (WiaError, VerifyException, ParseError) as error:
        if fails:
            return f"{type(error).__name__}: {error}"
        raise
    if fails:
        raise AssertionError(f"an error was expected of {command}, it printed:\n{output}")
    return output


def _run(options: list[str], text: str) -> str:
    module = parse_ir(text)
    settings = dict(_setting(option) for option in options)
    kernel = settings.get("kernel") or list(functions_of(module))[-1]
    facts = dict(part.split("=") for part in filter(None, settings.get("facts", "").split(",")))
    numbers = {name: int(value) for name, value in facts.items()}
    context = PassContext(Source(text), kernel, dataclasses.replace(BARE_FACTS, **numbers))
    module.verify()
    patterns = pattern_declarations(module)
    for option in options:
        name, value = _setting(option)
        if name in ("kernel", "facts", "decisions"):
            continue
        made = make_pass(name, value)
        if isinstance(made, ApplyPatterns):
            made = ApplyPatterns(patterns)
        made.run(module, context)
        module.verify()
    return _decisions(context) if "decisions" in settings else _printed(module)


def _printed(module: ModuleOp) -> str:
    text = print_ir(module)
    again = print_ir(parse_ir(text))
    if again != text:
        raise AssertionError(f"the text does not read back as itself:\n{text}\n---\n{again}")
    return text


def _decisions(context: PassContext) -> str:
    lines: list[str] = []
    for each in context.decisions:
        mark = "taken" if each.taken else "refused"
        numbers = ", ".join(f"{name}={value}" for name, value in each.numbers.items())
        lines.append(f"{mark} {each.kind} {each.candidate}: {each.reason} [{numbers}]")
    return "\n".join(lines)


def pattern_declarations(module: ModuleOp) -> tuple[PatternDeclaration, ...]:
    """The patterns of a file; their functions are taken out of the module."""
    functions = functions_of(module)
    names = [name.removesuffix(".match") for name in functions if name.endswith(".match")]
    made: list[PatternDeclaration] = []
    for name in names:
        sides = [functions[f"{name}.{side}"] for side in ("match", "rewrite")]
        for side in sides:
            side.detach()
        span = Span(1, 1, 1, 1)
        made.append(PatternDeclaration(name, Source(f"pattern {name}"), span, *sides))
    return tuple(made)


def _setting(option: str) -> tuple[str, str]:
    name, _, value = option.removeprefix("--").partition("=")
    return name, value


def make_pass(name: str, value: str = "") -> Pass:
    """The pass whose file is called so."""
    if name == "infer-shapes":
        pairs = dict(part.split(":") for part in filter(None, value.split(",")))
        return high_passes(specs(**pairs))[1]
    target, _, file = name.rpartition("/")
    folder = f"wia_compiler.backends.{target}" if target else "wia_compiler.passes"
    module = importlib.import_module(f"{folder}.{file.replace('-', '_')}")
    made = [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__ and hasattr(each, "run") and hasattr(each, "level")
    ]
    if len(made) != 1:
        raise ValueError(f"{module.__name__} holds {len(made)} passes, expected one")
    return made[0]()
