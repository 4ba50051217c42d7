"""Rewrite rules as rows: a pattern in the language's own terms, and what takes its place.

``Rule("abs(neg(x))", "abs(x)")`` reads as algebra. In a pattern, a name stands for any value (the
same value wherever it recurs) and a number for a constant that holds it in every element, the sign
of a zero included. Operands of commutative ops match in either order.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.types import Value, spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp, make_op
from wia_compiler.passes.control_flow import walk_ops
from wia_compiler.passes.framework import PassContext

COMMUTATIVE = frozenset({"add", "mul", "min", "max", "eq", "ne", "logical_and", "logical_or"})
_NUMBERS = {"inf": math.inf, "true": True, "false": False}

Dtypes = Literal["any", "float", "integer", "signed", "exact"]
Bindings: TypeAlias = "dict[str, SSAValue]"


@dataclass(frozen=True)
class Rule:
    """One identity: wherever ``pattern`` stands, ``replacement`` has the same value, bit for bit.

    ``dtypes`` says for which dtypes of the root's first operand it holds: ``float``, ``integer``,
    ``signed`` (both, but u8), ``exact`` (integers and bool, where x equals x) or ``any``.
    """

    pattern: str
    replacement: str
    dtypes: Dtypes = "any"

    @cached_property
    def tree(self) -> ast.expr:
        """The pattern as a syntax tree."""
        return ast.parse(self.pattern, mode="eval").body

    @cached_property
    def result(self) -> ast.expr:
        """The replacement as a syntax tree."""
        return ast.parse(self.replacement, mode="eval").body

    @cached_property
    def root(self) -> str:
        """The name of the op that the pattern's root is."""
        return _call(self.tree)[0]

    @property
    def title(self) -> str:
        """How a table of decisions shows it."""
        return f"{self.pattern} → {self.replacement}"

    def apply(self, op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
        """The value that replaces the op's result, or ``None`` where the rule does not hold."""
        if not _dtype_fits(self.dtypes, op):
            return None
        bindings: Bindings = {}
        if not _match_op(self.tree, op, bindings, rewriter.matched):
            return None
        return rewriter.broadcast(self._build(self.result, bindings, rewriter))

    def _build(self, tree: ast.expr, bindings: Bindings, rewriter: Rewriter) -> SSAValue:
        if isinstance(tree, ast.Name) and tree.id in bindings:
            return bindings[tree.id]
        number = _number(tree)
        if number is not None:
            return rewriter.constant(number)
        name, arguments = _call(tree)
        return rewriter.make(name, [self._build(each, bindings, rewriter) for each in arguments])


@dataclass(frozen=True)
class FunctionRule:
    """A rule that is more than a pattern: ``function`` gives the new value, or ``None``."""

    title: str
    roots: tuple[str, ...]
    function: Callable[[TensorOp, Rewriter], SSAValue | None]

    def apply(self, op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
        """The value that replaces the op's result, or ``None`` where the rule does not hold."""
        return self.function(op, rewriter)


AnyRule: TypeAlias = "Rule | FunctionRule"


@dataclass
class Rewriter:
    """Makes ops in the place of one op; they take its location and that of what was matched."""

    root: TensorOp
    matched: list[Operation] = field(default_factory=list[Operation])
    made: list[Operation] = field(default_factory=list[Operation])

    def make(
        self,
        name: str,
        operands: Sequence[SSAValue] | Mapping[str, SSAValue],
        attributes: Mapping[str, Value] | None = None,
    ) -> SSAValue:
        """A new op's result."""
        op = make_op(name, operands, attributes)
        self.made.append(op)
        return op.result

    def constant(self, number: bool | int | float) -> SSAValue:
        """A constant of the root's type; every NaN is written as the same one."""
        spec = self.root.result_spec
        value = float(number) if spec.dtype.is_float else number
        op = ConstantOp(math.nan if value != value else value, self.root.result.type)
        self.made.append(op)
        return op.result

    def broadcast(self, value: SSAValue) -> SSAValue:
        """The value in the root's shape."""
        shape = self.root.result_spec.shape
        if spec_of(value.type).shape == shape:
            return value
        return self.make("broadcast", [value], {"shape": shape})

    def producer(self, value: SSAValue, *names: str) -> TensorOp | None:
        """The op that makes a value, if it is one of those; it counts as matched."""
        op = value.owner
        if isinstance(op, TensorOp) and op.declaration.name in names:
            self.matched.append(op)
            return op
        return None


def apply_rules(function: FuncOp, rules: Sequence[AnyRule], context: PassContext) -> None:
    """Rewrite a function from its first op to its last, each op until no rule holds.

    Rules look from an op at its producers, which are settled by then, so one sweep suffices.
    Producers that nothing uses any more are removed; every rewrite is recorded as a decision.
    """
    by_root: dict[str, list[AnyRule]] = {}
    for rule in rules:
        for root in (rule.root,) if isinstance(rule, Rule) else rule.roots:
            by_root.setdefault(root, []).append(rule)
    for op in walk_ops(function):
        pending = [op]
        while pending:
            each = pending.pop()
            if isinstance(each, TensorOp) and each.parent is not None:
                pending += reversed(_rewrite(each, by_root, context))


def _rewrite(
    op: TensorOp, by_root: dict[str, list[AnyRule]], context: PassContext
) -> list[Operation]:
    for rule in by_root.get(op.declaration.name, ()):
        rewriter = Rewriter(op)
        value = rule.apply(op, rewriter)
        if value is None:
            continue
        _record(rule, op, context)
        _replace(op, value, rewriter)
        return rewriter.made
    return []


def _replace(op: TensorOp, value: SSAValue, rewriter: Rewriter) -> None:
    block = op.parent_block()
    if block is None:
        raise ValueError("an op that is rewritten stands in a block")
    location = merge_locations([op, *rewriter.matched])
    for made in rewriter.made:
        made.location = location
        block.insert_op_before(made, op)
    if op.result.name_hint is not None and isinstance(value.owner, Operation):
        value.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(value)
    erase_unused(op)


def erase_unused(op: TensorOp | ConstantOp) -> None:
    """Remove an op that nothing uses, and of what it read what nothing else uses."""
    pending: list[object] = [op]
    while pending:
        each = pending.pop()
        if not isinstance(each, TensorOp | ConstantOp) or each.parent is None:
            continue
        if each.result.first_use is None:
            pending += [operand.owner for operand in each.operands]
            each.detach()
            each.erase()


def _record(rule: AnyRule, op: TensorOp, context: PassContext) -> None:
    spans = tuple(filter(None, [context.id_of(op)]))
    name = op.result.name_hint or op.declaration.name
    reason = f"the value of {name} is the same, bit for bit"
    context.decisions.append(Decision("rewrite", rule.title, True, reason, {}, spans))


def splat(value: SSAValue) -> bool | int | float | None:
    """The number that a value holds in every element, or ``None``."""
    return value.owner.number if isinstance(value.owner, ConstantOp) else None


def _match(tree: ast.expr, value: SSAValue, bindings: Bindings, matched: list[Operation]) -> bool:
    number = _number(tree)
    if number is not None:
        found = splat(value)
        return found is not None and same_number(found, number)
    if isinstance(tree, ast.Name):
        return bindings.setdefault(tree.id, value) is value
    return isinstance(value.owner, TensorOp) and _match_op(tree, value.owner, bindings, matched)


def _match_op(tree: ast.expr, op: TensorOp, bindings: Bindings, matched: list[Operation]) -> bool:
    name, arguments = _call(tree)
    if op.declaration.name != name or len(arguments) != len(op.arguments):
        return False
    orders = [list(op.arguments)]
    if name in COMMUTATIVE:
        orders.append(orders[0][::-1])
    for order in orders:
        trial = dict(bindings)
        pairs = zip(arguments, order, strict=True)
        if all(_match(each, value, trial, matched) for each, value in pairs):
            bindings.update(trial)
            matched.append(op)
            return True
    return False


def same_number(one: bool | int | float, other: bool | int | float) -> bool:
    """Whether two numbers are equal, the sign of a zero included; 1 is not ``true``."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def _number(tree: ast.expr) -> bool | int | float | None:
    match tree:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = _number(operand)
            return None if number is None else -number
        case ast.Name(id=name):
            return _NUMBERS.get(name)
        case _:
            return None


def _call(tree: ast.expr) -> tuple[str, list[ast.expr]]:
    match tree:
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return name, arguments
        case _:
            raise ValueError(f"a pattern is an op, found {ast.unparse(tree)}")


def _dtype_fits(dtypes: Dtypes, op: TensorOp) -> bool:
    dtype = spec_of(op.arguments[-1].type).dtype
    match dtypes:
        case "float":
            return dtype.is_float
        case "integer":
            return dtype.is_integer
        case "signed":
            return dtype.kind in ("float", "int")
        case "exact":
            return not dtype.is_float
        case "any":
            return True
