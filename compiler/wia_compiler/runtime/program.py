"""``wia.compile``: from text to a mapping of kernels."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import CallOp, FuncOp

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Source, Span
from wia_compiler.runtime.cache_key import KernelText
from wia_compiler.runtime.kernel import Kernel, refuse_schedule
from wia_compiler.runtime.session import KernelUnit, Session, default_session

if TYPE_CHECKING:
    from wia_compiler.frontend.import_dsl import ImportedProgram


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
    text: str | Source, *, bindings: Mapping[str, Any] | None = None, schedule: object = None
) -> Program:
    """Read a program; kernels are compiled when they are first called or built.

    Raises ``CompileError`` with every fault of the text. ``bindings`` (values of free names) and
    ``schedule`` must be ``None``: neither is part of the language yet.

    >>> program = compile("kernel double(input A: tensor, output B: tensor) { B = A + A; }")
    >>> list(program)
    ['double']
    """
    if bindings is not None:
        raise ArgumentError(
            "bindings=: free names cannot be bound yet, expected None\n"
            "  help: declare them as inputs of the kernel"
        )
    refuse_schedule(schedule)
    return load_program(_source(text), default_session())


def _source(text: object) -> Source:
    if isinstance(text, Source):
        return text
    if isinstance(text, str):
        return Source(text)
    raise ArgumentError(f"compile: got a {type(text).__name__}, expected the text of a program")


def load_program(source: Source, session: Session) -> Program:
    """Read a program whose kernels build in ``session``."""
    from wia_compiler.frontend.dsl import parse
    from wia_compiler.frontend.import_dsl import import_program

    tree = parse(source)
    imported = import_program(tree)
    texts = {
        kernel.name.text: KernelText(
            kernel.name.text,
            f"{kernel.span.line}:{kernel.span.column}",
            text_of(source, kernel.span),
        )
        for kernel in tree.kernels
    }
    calls = _calls(imported)
    return Program(
        source,
        {
            name: Kernel(
                KernelUnit(imported, signature, tuple(texts[n] for n in _reached(name, calls))),
                session,
            )
            for name, signature in imported.kernels.items()
        },
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
