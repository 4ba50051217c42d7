"""The region of a ``loop.nest`` while it is filled: scopes, arrays, what comes from outside."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Block, SSAValue

from wia_compiler.base.signature import ParameterDeclaration
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp, OutputOp
from wia_compiler.dialects.loop_elements import YieldOp
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, LiteralType, TensorOp
from wia_compiler.dialects.wia.size import SizeOp
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, is_made_of_literals


@dataclass
class NestBody(Body):
    """A nest in the making, inside the body ``outer`` of a kernel.

    ``captured`` maps the nest's arguments to the values of ``outer`` that they stand for.
    ``changed`` are the names of its arrays that it stores to. ``owners`` says on which line a name
    of a scope was made, ``fixed`` which names are loop variables, and ``partial`` why a name that
    was set somewhere inside has no value here. ``mine`` are the names made in the current scope,
    ``indexed`` those whose elements the text names.
    """

    outer: Body = field(kw_only=True)
    captured: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    changed: dict[str, None] = field(default_factory=dict[str, None])
    owners: dict[str, int] = field(default_factory=dict[str, int])
    fixed: set[str] = field(default_factory=set[str])
    partial: dict[str, str] = field(default_factory=dict[str, str])
    mine: set[str] = field(default_factory=set[str])
    indexed: set[str] = field(default_factory=set[str])

    def capture_all(self, *roots: object) -> None:
        """Make every name of ``outer`` that the text reads or stores to known here."""
        for node in syntax.walk(*roots):
            if isinstance(node, syntax.Name):
                self._capture(node)
            elif isinstance(node, syntax.Index):
                self._capture_output(node)

    def _capture(self, node: syntax.Name) -> None:
        name = node.text
        if name in self.values:
            return
        if name in self.outer.values:
            value = self.outer.values[name]
            self.values[name] = None if value is None else self._inside(value)
        elif name in sizes_of(self.outer):
            size = self.outer.add(SizeOp(name, 0, AnyTensorType()), node.span).result
            size.name_hint = name
            self.outer.values[name] = size
            self.values[name] = self._argument(size)
            self.fixed.add(name)
        elif not self.outer.is_parameter(name):
            bound = self.outer.bound.find(name)
            if bound is not None and bound.sort == "array":
                self.values[name] = self._argument(self.outer.bound_array(name))

    def _inside(self, value: SSAValue) -> SSAValue:
        """The value in the nest: numbers of the text are written again, the rest are arguments."""
        return self._copy(value) if is_made_of_literals(value) else self._argument(value)

    def _copy(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        assert isinstance(owner, ConstantOp | TensorOp)
        operands = {each: self._copy(each) for each in owner.operands}
        copy = owner.clone(operands)
        self.block.add_op(copy)
        copy.result.name_hint = value.name_hint
        return copy.result

    def _argument(self, value: SSAValue) -> SSAValue:
        for inner, outer in self.captured.items():
            if outer is value:
                return inner
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = value.name_hint
        self.captured[argument] = value
        return argument

    def _capture_output(self, node: syntax.Index) -> None:
        """An output that was not set before begins as zeros."""
        base = node.base
        if not isinstance(base, syntax.Name):
            return
        self.indexed.add(base.text)
        if base.text in self.values or base.text in self.outer.values:
            return
        for parameter in self.signature.parameters:
            if parameter.name == base.text and parameter.role == "output":
                self.values[base.text] = self._argument(self._fresh_output(parameter, base.span))

    def stores_to(self, name: str) -> SSAValue | None:
        """The array of that name, noted as one that the nest changes."""
        value = self.values.get(name)
        if value in self.captured:
            self.changed[name] = None
        return value

    def is_array(self, name: str) -> bool:
        """Whether a name stands for an array, as far as the text tells."""
        value = self.values.get(name)
        if value is None:
            return False
        return isinstance(value.owner, LocalOp) or (
            value in self.captured and name in self.indexed and name not in self.fixed
        )

    @property
    def top(self) -> Block:
        """The nest's own block."""
        return self._top

    def __post_init__(self) -> None:
        self._top = self.block

    def _fresh_output(self, parameter: ParameterDeclaration, span: Span) -> SSAValue:
        name, declared = parameter.name, parameter.type
        dims = declared.dims
        known = sizes_of(self.outer, inputs_only=True)
        sizes: list[SSAValue] = []
        for dim in dims or ():
            if isinstance(dim, int):
                sizes.append(self.outer.add(ConstantOp(dim, LiteralType()), span).result)
            elif dim in known:
                sizes.append(self.outer.add(SizeOp(dim, 0, AnyTensorType()), span).result)
        if dims is None or len(sizes) < len(dims):
            sizes = []
        op = OutputOp(name, sizes, rank=None if dims is None else len(dims), dtype=declared.dtype)
        result = self.outer.add(op, span).result
        result.name_hint = name
        return result

    def bind(self, name: str, value: SSAValue | None, span: Span) -> None:
        """Let a name stand for a value; a new one lives in this scope."""
        if name not in self.values:
            self.mine.add(name)
        self.values[name] = value
        self.owners.setdefault(name, span.line)
        self.partial.pop(name, None)
        if value is not None and value.name_hint is None:
            value.name_hint = name

    @contextmanager
    def scope(self, types: Sequence[Attribute] = ()) -> Generator[Block]:
        """A region of its own: names made in it end with it; gives its block."""
        before = (self.block, self.values, self.owners, set(self.fixed), self.mine)
        self.block, self.mine = Block(arg_types=types), set()
        self.values, self.owners = dict(self.values), dict(self.owners)
        try:
            yield self.block
        finally:
            self.block, self.values, self.owners, self.fixed, self.mine = before

    def finish(self, before: dict[str, SSAValue | None], span: Span) -> None:
        """Put the nest into ``outer`` and let the names that it set stand for its results."""
        arguments = [each for each in self.top.args if each.first_use is not None]
        for each in list(self.top.args):
            if each.first_use is None:
                del self.captured[each]
                self.top.erase_arg(each)
        arrays = [name for name in self.changed if self.values.get(name) in self.captured]
        arrays.sort(key=lambda name: arguments.index(self.values[name]))  # pyright: ignore[reportArgumentType]
        scalars = {
            name: value
            for name, value in self.values.items()
            if value is not None and name not in arrays and before.get(name) is not value
        }
        self.add(YieldOp(list(scalars.values())), span)
        writes = [arguments.index(self.values[name]) for name in arrays]  # pyright: ignore[reportArgumentType]
        types = [arguments[each].type for each in writes]
        types += [AnyTensorType() for _ in scalars]
        region = self.top.parent_region()
        assert region is not None
        nest = NestOp([self.captured[each] for each in arguments], writes, types, region)
        nest.location = location(Origin(next(self.tokens), span))
        self.outer.block.add_op(nest)
        for name, result in zip((*arrays, *scalars), nest.outputs, strict=True):
            result.name_hint = name
            self.outer.values[name] = result
        for name, value in self.values.items():
            if value is None:
                self.outer.values.setdefault(name, None)


def sizes_of(body: Body, *, inputs_only: bool = False) -> set[str]:
    """The named sizes of a kernel's types; only those that a call fixes."""
    parameters = body.signature.inputs if inputs_only else body.signature.parameters
    return {dim for p in parameters for dim in p.type.dims or () if isinstance(dim, str)}
