"""What kernels and funcs share: arguments that come in, one ``func.return``, the function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import func
from xdsl.dialects.cf import BranchOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from wia_compiler.base.signature import DeclaredType, KernelSignature, ParameterDeclaration
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import element_type
from wia_compiler.dialects.wia.ops import AnyTensorType, DeclareOp
from wia_compiler.frontend.body import Body, give_name


def enter(body: Body) -> None:
    """Bind the parameters that come in, each under its declared type."""
    inputs = body.signature.passed
    block = body.blocks[0]
    for parameter in inputs:
        argument = block.insert_arg(_argument_type(parameter), len(block.args))
        give_name(argument, parameter.name)
    for parameter, argument in zip(inputs, block.args, strict=True):
        body.values[parameter.name] = declare(argument, parameter, body)


def _argument_type(parameter: ParameterDeclaration) -> Attribute:
    dtype = parameter.type.dtype
    if parameter.role == "scalar" and dtype is not None:
        return element_type(dtype)
    return AnyTensorType()


def declare(value: SSAValue, parameter: ParameterDeclaration, body: Body) -> SSAValue:
    """The value under the type that the text gives a parameter."""
    return declare_type(value, parameter.name, parameter.type, parameter.span, body)


def declare_type(
    value: SSAValue, name: str, declared: DeclaredType, span: Span | None, body: Body
) -> SSAValue:
    """The value under a type of the text, which is checked when shapes are known."""
    if declared.dims is None and declared.dtype is None:
        return value
    op = DeclareOp(
        value,
        kernel=body.signature.name,
        parameter=name,
        dims=declared.dims,
        dtype=declared.dtype,
        scope=0,
    )
    result = body.add(op, span).result
    give_name(result, name)
    return result


def finish(body: Body, span: Span) -> func.FuncOp:
    """The function of a body without faults: its ways out meet in one ``func.return``."""
    outputs = [p for p in body.signature.parameters if p.role in ("output", "inout")]
    if len(body.exits) == 1:
        body.block = body.exits[0].block
        results: Sequence[SSAValue] = body.exits[0].results
        span = body.exits[0].span if not outputs else span
    else:
        names = body.signature.output_names if outputs else _names_of_results(body)
        last = body.start_block("exit", names)
        for leaving in body.exits:
            body.add_to(leaving.block, BranchOp(last, *leaving.results), leaving.span)
        results = last.args
    if outputs:
        results = [declare(v, p, body) for v, p in zip(results, outputs, strict=True)]
    body.add(func.ReturnOp(*results), span)
    _drop_unread_arguments(body.blocks)
    region = Region(body.blocks)
    types = ([a.type for a in body.blocks[0].args], [value.type for value in results])
    return func.FuncOp(body.signature.name, types, region)


def _names_of_results(body: Body) -> tuple[str, ...]:
    """The names that the returned values have, where all ways out agree, else ``result``."""
    hints = zip(*([v.name_hint for v in leaving.results] for leaving in body.exits), strict=True)
    return tuple(
        each[0] if each[0] is not None and len(set(each)) == 1 else "result" for each in hints
    )


def _drop_unread_arguments(blocks: Sequence[Block]) -> None:
    """Take away what blocks are passed and do not read: names set on several ways, then unused."""
    sources: dict[Block, list[BranchOp]] = {}
    for block in blocks:
        if isinstance(block.last_op, BranchOp):
            sources.setdefault(block.last_op.successor, []).append(block.last_op)
    unread = [arg for block in sources for arg in block.args if not arg.uses.get_length()]
    while unread:
        argument = unread.pop()
        block = argument.block
        for branch in sources[block]:
            operands = list(branch.operands)
            given = operands.pop(argument.index)
            branch.operands = operands
            owner = given.owner
            if isinstance(owner, Block) and owner in sources and not given.uses.get_length():
                unread.append(given)  # pyright: ignore[reportArgumentType]
        block.erase_arg(argument)


def with_bound(signature: KernelSignature, body: Body) -> KernelSignature:
    """The signature with the bound arrays that the body came to use."""
    bound = tuple(ParameterDeclaration(name, "bound", DeclaredType()) for name in body.bound.arrays)
    return replace(signature, parameters=(*signature.parameters, *bound))
