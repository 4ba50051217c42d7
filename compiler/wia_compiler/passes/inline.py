"""Puts the bodies of called kernels in the places of their calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.cf import BranchOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.location import Origin, location, origins_of, spans_of
from wia_compiler.dialects.wia.ops import DeclareOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import functions_of, kernel_function


@dataclass(frozen=True)
class Inline:
    """Replaces every call of a kernel by a copy of the kernel's body.

    ``%1 = func.call @scale(%x)`` → ``%1 = wia.mul %x, %two``. A callee of several blocks splits the
    block of the call: what follows the call becomes a block whose arguments are the callee's
    results. Each copy has its own scope of named sizes and its own location tokens; its ops keep
    the span of the callee's text and gain that of the call. Functions that nothing calls any more
    are removed.
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
        for op in list(caller.body.walk()):
            if not isinstance(op, CallOp):
                continue
            callee = op.callee.string_value()
            if callee in (*callers, name):
                cycle = " → ".join([*callers, name, callee])
                self._refuse(
                    op,
                    f"kernel {callee} calls itself: {cycle}",
                    "kernels are inlined: write the repetition out",
                )
            self.inline_calls(self.functions[callee], (*callers, name))
            self._replace(op, self.functions[callee])

    def _refuse(self, op: Operation, message: str, hint: str) -> None:
        span = next(iter(spans_of(op)), None)
        raise CompileError([Diagnostic(message, span, hint, self.context.source)])

    def _replace(self, call: CallOp, callee: FuncOp) -> None:
        block = call.parent_block()
        region = block.parent if block is not None else None
        if block is None or region is None:
            raise ValueError("a call that is inlined stands in a block")
        name = callee.sym_name.data
        if len(callee.body.blocks) > 1 and not isinstance(region.parent, FuncOp):
            self._refuse(
                call,
                f"kernel {name} branches on whole tensors, it is called for one element of a loop",
                f"write the branches of {name} on elements, or call it outside of the loop",
            )
        body = self._copy(call, callee)
        first, last = body.blocks.first, body.blocks.last
        assert first is not None and last is not None
        for inner, passed in zip(first.args, call.operands, strict=True):
            inner.replace_all_uses_with(passed)
        if first is last:
            results = _take_return(first)
            for op in list(first.ops):
                op.detach()
                block.insert_op_before(op, call)
            self._name(results, call)
        else:
            results = _splice(body, call, block, region)
        for result, value in zip(call.results, results, strict=True):
            result.replace_all_uses_with(value)
        self._record(call, callee)
        call.detach()
        call.erase()

    def _copy(self, call: CallOp, callee: FuncOp) -> Region:
        """The callee's body with places, tokens and scopes of its own."""
        body = Region()
        callee.body.clone_into(body)
        scopes: dict[int, int] = {}
        for original, copy in zip(callee.body.walk(), body.walk(), strict=True):
            self._locate(copy, original, call)
            scope = copy.properties.get("scope")
            if isinstance(scope, IntegerAttr):  # of a wia.declare, of a wia.size
                number = scopes.setdefault(scope.value.data, next(self.scopes))
                copy.properties["scope"] = IntegerAttr(number, i64)
        for before, block in zip(callee.body.blocks, body.blocks, strict=True):
            block.name_hint = before.name_hint
        return body

    def _name(self, values: Sequence[SSAValue], call: CallOp) -> None:
        """A result takes the name that the caller gives it."""
        for value, result in zip(values, call.results, strict=True):
            if result.name_hint is not None and isinstance(value.owner, Operation):
                value.name_hint = result.name_hint

    def _locate(self, copy: Operation, original: Operation, call: CallOp) -> None:
        token = next(self.tokens)
        origins = (*origins_of(original), *origins_of(call))
        copy.location = location(*(Origin(token, origin.span) for origin in origins))
        before: list[int] = []
        for origin in origins:
            before += self.context.copied_tokens.get(origin.token, (origin.token,))
        self.context.copied_tokens[token] = tuple(dict.fromkeys(before))

    def _record(self, call: CallOp, callee: FuncOp) -> None:
        aside = ReturnOp | DeclareOp | BranchOp
        count = sum(1 for op in callee.body.walk() if not isinstance(op, aside))
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


def _take_return(block: Block) -> Sequence[SSAValue]:
    """Remove the block's ``func.return``; what it returned."""
    last = block.last_op
    if not isinstance(last, ReturnOp):
        raise ValueError("a kernel ends with func.return")
    values = list(last.operands)
    last.detach()
    last.erase()
    return values


def _splice(body: Region, call: CallOp, block: Block, region: Region) -> Sequence[SSAValue]:
    """Put the callee's blocks between what stands before the call and what follows it.

    What follows becomes a block that takes the callee's results as arguments; these.
    """
    first = body.blocks.first
    assert first is not None
    after = block.split_before(call, arg_types=[result.type for result in call.results])
    for argument, result in zip(after.args, call.results, strict=True):
        argument.name_hint = result.name_hint
        argument.location = call.location
    for each in body.blocks:
        last = each.last_op
        if isinstance(last, ReturnOp):
            place = last.location
            branch = BranchOp(after, *_take_return(each))
            branch.location = place
            each.add_op(branch)
    for op in list(first.ops):
        op.detach()
        block.add_op(op)
    others = [each for each in body.blocks if each is not first]
    for each in others:
        body.detach_block(each)
    region.insert_block_before(others, after)
    return after.args
