"""``wia.compile``: from text to a mapping of kernels."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import CallOp, FuncOp

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax
from wia_compiler.runtime.bound_values import bound_numbers
from wia_compiler.runtime.cache_key import KernelText
from wia_compiler.runtime.kernel import Kernel
from wia_compiler.runtime.schedules import GivenSchedule, read_program_schedules
from wia_compiler.runtime.session import KernelUnit, Session, default_session

if TYPE_CHECKING:
    from wia_compiler.frontend.import_dsl import ImportedProgram

LANGUAGES = ("wia", "c++")

_WORD = re.compile(r"\w+")


class Program(Mapping[str, Kernel]):
    """The kernels of a text by name: ``program["matmul"]`` or ``program.matmul``."""

    def __init__(self, source: Source, kernels: Mapping[str, Kernel]):
        self._source = source
        self._kernels = dict(kernels)

    @property
    def source(self) -> Source:
        """The text."""
        return self._source

    def __getitem__(self, name: str) -> Kernel:
        try:
            return self._kernels[name]
        except KeyError:
            raise KeyError(self._absent(name)) from None

    def __getattr__(self, name: str) -> Kernel:
        kernels: dict[str, Kernel] = self.__dict__.get("_kernels", {})
        if name in kernels:
            return kernels[name]
        raise AttributeError(self._absent(name) if kernels else name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._kernels)

    def __repr__(self) -> str:
        signatures = "; ".join(str(kernel.signature) for kernel in self._kernels.values())
        return f"<wia.Program {signatures}>"

    def _absent(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._kernels, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"no kernel {name!r}: there are {', '.join(self._kernels) or 'none'}{hint}"


def compile(
    text: str | Source,
    *,
    bindings: Mapping[str, Any] | None = None,
    schedule: GivenSchedule = None,
    language: str = "wia",
) -> Program:
    """Read a program; kernels are compiled when they are first called or built.

    ``bindings`` gives free names of the text their values: arrays, which every call looks up there
    and adds to its arguments; numbers, which become part of the code; tuples of both, which stand
    for their elements in a row. ``language`` is ``"wia"`` (kernels, and the IR notation of
    chapter 5) or ``"c++"`` (loops over arrays, see docs/front_ends.md). Raises ``CompileError``
    with every fault of the text. ``schedule`` takes the place of the text's own ``schedule`` blocks
    for the kernels that it names: a text of such blocks, or of lines alone where the program has
    one kernel; ``"default"`` is what each target chooses.

    >>> program = compile("kernel double(input A: tensor, output B: tensor) { B = A + A; }")
    >>> list(program)
    ['double']
    """
    if bindings is not None and not isinstance(bindings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            f"bindings=: got a {type(bindings).__name__}, expected a mapping of names to values\n"
            '  help: write bindings={"weight": array}'
        )
    program = load_program(_source(text), default_session(), bindings or {}, language)
    given = read_program_schedules(schedule, list(program))
    if not given:
        return program
    kernels = {
        name: k.to(schedule=given[name]) if name in given else k for name, k in program.items()
    }
    return Program(program.source, kernels)


def _source(text: object) -> Source:
    if isinstance(text, Source):
        return text
    if isinstance(text, str):
        return Source(text)
    raise ArgumentError(f"compile: got a {type(text).__name__}, expected the text of a program")


def load_program(
    source: Source,
    session: Session,
    bindings: Mapping[str, Any] | None = None,
    language: str = "wia",
    *,
    is_namespace: bool = False,
) -> Program:
    """Read a program whose kernels build in ``session``.

    Where ``bindings`` are all that the user has (``is_namespace``), not names picked for this text,
    bare C++ statements take their free names as parameters all the same.
    """
    known: Mapping[str, Any] = {} if bindings is None else bindings
    tree = parse(source, known, language, is_namespace=is_namespace)
    units = kernel_units(tree, known, language)
    return Program(source, {name: Kernel(unit, session) for name, unit in units.items()})


def parse(
    source: Source, bindings: Mapping[str, Any], language: str, *, is_namespace: bool = False
) -> syntax.Program:
    """The syntax tree of a text; ``ArgumentError`` for a language that nothing reads."""
    if language == "wia":
        from wia_compiler.frontend.dsl import parse

        return parse(source, bindings)
    if language == "c++":
        from wia_compiler.frontend.cpp.parse import parse

        return parse(source, bindings, snippets_bind=not is_namespace)
    spelled = "c++" if language.lower() in ("c", "cc", "cpp", "cxx") else language.lower()
    near = difflib.get_close_matches(spelled, LANGUAGES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "a Python function becomes one by @wia.kernel"
    raise ArgumentError(
        f"language={language!r}: expected one of {', '.join(map(repr, LANGUAGES))}\n  help: {hint}"
    )


def kernel_units(
    tree: syntax.Program, bindings: Mapping[str, Any], language: str
) -> dict[str, KernelUnit]:
    """Each kernel of a program with everything that its code depends on but the arguments."""
    from wia_compiler.frontend.import_dsl import import_program

    imported = import_program(tree, bindings)
    texts = _texts(tree, language)
    calls = _calls(imported)
    units: dict[str, KernelUnit] = {}
    for name, signature in imported.kernels.items():
        reached = [each for each in _reached(name, calls) if each in texts]
        words = {word for each in reached for word in _WORD.findall(texts[each].text)}
        words -= {p.name for each in reached for p in imported.kernels[each].parameters}
        numbers = bound_numbers(words, bindings)
        units[name] = KernelUnit(
            imported,
            signature,
            (*(texts[each] for each in reached), *_pattern_texts(tree)),
            language,
            bindings,
            numbers,
            tree,
            tuple(each for each in imported.schedules if each.kernel == name),
        )
    return units


def _functions(tree: syntax.Program) -> dict[str, syntax.Kernel | syntax.Function]:
    return {each.name.text: each for each in (*tree.kernels, *tree.functions)}


def _texts(tree: syntax.Program, language: str) -> dict[str, KernelText]:
    """The text that each kernel's code depends on.

    What a C++ function means also depends on the macros and constants around it: there it is the
    whole text.
    """
    whole = language == "c++"
    return {
        name: KernelText(
            name,
            "1:1" if whole else f"{function.span.line}:{function.span.column}",
            tree.source.text if whole else text_of(tree.source, function.span),
        )
        for name, function in _functions(tree).items()
    }


def _pattern_texts(tree: syntax.Program) -> tuple[KernelText, ...]:
    """The ``pattern`` blocks, which rewrite every kernel of the program."""
    return tuple(
        KernelText(
            f"pattern {pattern.name.text}",
            f"{pattern.span.line}:{pattern.span.column}",
            text_of(tree.source, pattern.span),
        )
        for pattern in tree.patterns
    )


def text_of(source: Source, span: Span) -> str:
    """The characters of a span."""
    lines = source.text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def _calls(imported: ImportedProgram) -> dict[str, list[str]]:
    """Which kernels each kernel calls, in order."""
    calls: dict[str, list[str]] = {}
    for function in imported.module.ops:
        if isinstance(function, FuncOp):
            calls[function.sym_name.data] = [
                op.callee.string_value() for op in function.walk() if isinstance(op, CallOp)
            ]
    return calls


def _reached(name: str, calls: Mapping[str, list[str]]) -> list[str]:
    """The kernel, then all that it calls directly or through others, each once."""
    reached, waiting = [name], list(calls.get(name, []))
    while waiting:
        callee = waiting.pop(0)
        if callee not in reached:
            reached.append(callee)
            waiting.extend(calls.get(callee, []))
    return reached
