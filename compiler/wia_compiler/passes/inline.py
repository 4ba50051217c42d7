"""Puts the bodies of called kernels in the places of their calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.location import Origin, location, origins_of, spans_of
from wia_compiler.dialects.wia.ops import DeclareOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import functions_of, kernel_function


@dataclass(frozen=True)
class Inline:
    """Replaces every call of a kernel by a copy of the kernel's body.

    ``%1 = func.call @scale(%x)`` → ``%1 = wia.mul %x, %two``. Each copy has its own scope of named
    sizes and its own location tokens; its ops keep the span of the callee's text and gain that of
    the call. Functions that nothing calls any more are removed.
    """

    name: ClassVar[str] = "inline"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Inline all calls of the context's kernel, callees of callees first."""
        copier = _Copier(functions_of(module), context, _free_tokens(module), itertools.count(1))
        kernel = kernel_function(module, context.kernel)
        copier.inline_calls(kernel, ())
        for function in functions_of(module).values():
            if function is not kernel:
                function.detach()
                function.erase()


def _free_tokens(module: ModuleOp) -> Iterator[int]:
    used = (origin.token for op in module.walk() for origin in origins_of(op))
    return itertools.count(max(used, default=-1) + 1)


@dataclass
class _Copier:
    functions: dict[str, FuncOp]
    context: PassContext
    tokens: Iterator[int]
    scopes: Iterator[int]

    def inline_calls(self, caller: FuncOp, callers: tuple[str, ...]) -> None:
        name = caller.sym_name.data
        for op in list(caller.body.block.ops):
            if not isinstance(op, CallOp):
                continue
            callee = op.callee.string_value()
            if callee in (*callers, name):
                cycle = " → ".join([*callers, name, callee])
                span = next(iter(spans_of(op)), None)
                message = f"kernel {callee} calls itself: {cycle}"
                hint = "kernels are inlined: write the repetition out"
                raise CompileError([Diagnostic(message, span, hint, self.context.source)])
            self.inline_calls(self.functions[callee], (*callers, name))
            self._replace(op, self.functions[callee])

    def _replace(self, call: CallOp, callee: FuncOp) -> None:
        values: dict[SSAValue, SSAValue] = dict(
            zip(callee.body.block.args, call.operands, strict=True)
        )
        scopes: dict[int, int] = {}
        block = call.parent_block()
        if block is None:
            raise ValueError("a call that is inlined stands in a block")
        for op in callee.body.block.ops:
            if isinstance(op, ReturnOp):
                for result, value in zip(call.results, op.operands, strict=True):
                    self._rename(values[value], result.name_hint)
                    result.replace_all_uses_with(values[value])
                break
            copy = op.clone(values)
            self._locate(copy, op, call)
            if isinstance(copy, DeclareOp):
                scope = scopes.setdefault(copy.scope.value.data, next(self.scopes))
                copy.properties["scope"] = IntegerAttr(scope, i64)
            block.insert_op_before(copy, call)
        self._record(call, callee)
        call.detach()
        call.erase()

    def _rename(self, value: SSAValue, hint: str | None) -> None:
        if hint is not None and isinstance(value.owner, Operation):
            value.name_hint = hint

    def _locate(self, copy: Operation, original: Operation, call: CallOp) -> None:
        token = next(self.tokens)
        origins = (*origins_of(original), *origins_of(call))
        copy.location = location(*(Origin(token, origin.span) for origin in origins))
        before: list[int] = []
        for origin in origins:
            before += self.context.copied_tokens.get(origin.token, (origin.token,))
        self.context.copied_tokens[token] = tuple(dict.fromkeys(before))

    def _record(self, call: CallOp, callee: FuncOp) -> None:
        count = sum(1 for op in callee.body.block.ops if not isinstance(op, ReturnOp | DeclareOp))
        self.context.decisions.append(
            Decision(
                "inline",
                f"call of {callee.sym_name.data}",
                True,
                f"{callee.sym_name.data} is a kernel of the program, its {count} ops take the "
                "place of the call",
                {"ops": count},
                tuple(filter(None, [self.context.id_of(call)])),
            )
        )
