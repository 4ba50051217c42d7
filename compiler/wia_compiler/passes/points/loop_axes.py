"""Loops of point code as axes of leaves: what a loop's variable is at a point of an axis."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, math, memref, scf
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects import tile
from wia_compiler.dialects.tile_points import AXIS
from wia_compiler.passes.loops.forms import Atom, Form
from wia_compiler.passes.points.forms import Loop, PointForms

INDEPENDENT = "wia.independent"
"""Unit attribute of an ``scf.for`` whose iterations may run in any order."""


class NotRaised(Exception):
    """Why loops stay point code."""


@dataclass(frozen=True, eq=False)
class Axis:
    """``size`` points, at which the loop's variable is ``lower + step * point``.

    Where the axis has a ``loop`` of its own, the point is the loop's variable plus that of the
    leaf, which has one point. ``limits`` are numbers that the variable stays below.
    """

    name: str
    size: int
    atom: Atom
    step: int = 1
    lower: Form = field(default_factory=Form)
    limits: tuple[int, ...] = ()
    folded: bool = False
    loop: tile.ForOp | None = None


def axis_name(loop: Loop) -> str:
    """The axis of a loop of point code."""
    if isinstance(loop, tile.ForOp):
        return loop.axis.data.partition(".")[0]
    name = loop.attributes.get(AXIS)
    return name.data if name is not None else "?"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


def is_independent(loop: Loop) -> bool:
    """Whether a loop's iterations may run in any order."""
    return isinstance(loop, tile.ForOp) or INDEPENDENT in loop.attributes


def carried_of(loop: Loop) -> Sequence[BlockArgument]:
    """What a loop carries from one iteration to the next, inside of it."""
    return () if isinstance(loop, tile.ForOp) else loop.body.block.args[1:]


def is_lazy(op: Operation) -> bool:
    """Whether an op only computes a scalar, and may be written where that is needed."""
    return op.name.partition(".")[0] in (arith.Arith.name, math.Math.name)


def inner_loop(block: Block, written: Container[SSAValue]) -> Loop | None:
    """The loop that is all that a block does, but for what is as well done inside of it.

    That are sums over loops, elements of arrays that never change (not in ``written``), and cheap
    arithmetic on these.
    """
    loops: list[Loop] = []
    for op in block.ops:
        if isinstance(op, tile.ForOp | scf.ForOp):
            loops.append(op)
        elif isinstance(op, memref.LoadOp):
            if op.memref in written:
                return None
        elif not isinstance(op, scf.YieldOp) and (not is_lazy(op) or _is_expensive(op)):
            return None
    return loops[0] if len(loops) == 1 else None


def _is_expensive(op: Operation) -> bool:
    is_index = isinstance(op.results[0].type, IndexType) or op.results[0].type == i64
    return not is_index and (isinstance(op, arith.DivfOp) or op.name.startswith("math."))


def chain_of(loop: Loop, written: Container[SSAValue]) -> list[Loop]:
    """A loop and those inside of it, each of which is all that the one around it does."""
    found: list[Loop] = [loop]
    while (inner := inner_loop(found[-1].body.block, written)) is not None:
        if not _passes_on(found[-1], inner):
            break
        found.append(inner)
    return found


def _passes_on(outer: Loop, inner: Loop) -> bool:
    """Whether the inner loop goes on with what the outer one carries, and nothing else."""
    if isinstance(outer, tile.ForOp):
        return isinstance(inner, tile.ForOp) or not inner.results
    last = outer.body.block.last_op
    given = list(inner.iter_args) if isinstance(inner, scf.ForOp) else []
    return (
        last is not None
        and given == list(carried_of(outer))
        and list(last.operands) == list(inner.results)
    )


def is_straight(block: Block) -> bool:
    """Whether a block has neither loops nor branches."""
    plain = (memref.LoadOp, memref.StoreOp, scf.YieldOp)
    return all(is_lazy(op) or isinstance(op, plain) for op in block.ops)


@dataclass(frozen=True)
class LoopAxes:
    """Makes axes of loops; ``names`` are the names of loops in the text."""

    forms: PointForms
    names: dict[str, str]
    taken: dict[str, list[tuple[Loop, int, Form]]] = field(
        default_factory=dict["str", "list[tuple[Loop, int, Form]]"]
    )

    def variable(self, loop: Loop) -> Atom:
        """The atom that stands for a loop's variable."""
        return self.forms.atoms[loop]

    def is_tile(self, loop: Loop) -> bool:
        """Whether a loop walks tiles: a loop inside of it starts from its variable."""
        return self.points_of(loop) is not None

    def points_of(self, loop: Loop) -> scf.ForOp | None:
        """The loop over the points of the tiles that a loop walks."""
        start = Form.of(self.variable(loop))
        step = self._bounds(loop)[2]
        if step is None or step < 2:
            return None
        for op in loop.body.block.walk():
            if isinstance(op, scf.ForOp) and self.forms.form(op.lb) == start:
                return op
        return None

    def name(self, loop: Loop, size: int, lower: Form) -> str:
        """The name in the text; a loop over other points, or inside, has a name of its own."""
        if len(lower.terms) == 1 and lower == Form.of(lower.terms[0][0]):
            walk = self.forms.loops.get(lower.terms[0][0])
            first = self.points_of(walk) if walk is not None else None
            if first is not None and first is not loop:
                return self.name(first, size, lower)
        text = self.names.get(axis_name(loop), axis_name(loop))
        for name in itertools.chain((text,), (f"{text}{n}" for n in itertools.count(2))):
            others = self.taken.setdefault(name, [])
            if all(self._may_share(loop, size, lower, *other) for other in others):
                others.append((loop, size, lower))
                return name
        raise AssertionError

    def _may_share(
        self, loop: Loop, size: int, lower: Form, other: Loop, count: int, start: Form
    ) -> bool:
        """Whether two loops may be one axis of their leaves."""
        nested = other.is_ancestor(loop) or loop.is_ancestor(other)
        return other is loop or (not nested and (count, start) == (size, lower))

    def axis(self, loop: Loop, *, folded: bool = False) -> Axis:
        """A loop as an axis of as many points as it has at most."""
        lower, upper, step = self._bounds(loop)
        atom = self.variable(loop)
        if step is None or step < 1:
            raise NotRaised(f"loop {axis_name(loop)} takes steps that only the call knows")
        if lower.terms and not self._starts_a_tile(lower):
            raise NotRaised(f"loop {axis_name(loop)} starts at {lower}, which is no fixed number")
        here = self.forms.bounds_at(loop)
        size = -(-here.high(upper - lower) // step)
        limits: list[int] = []
        for end in _ends(upper) if lower.terms or upper.terms else ():
            room = (end - lower).number
            if room is None and end.number is not None and step == 1 and here.low(lower) >= 0:
                limits.append(end.number)
            elif room is None or -(-room // step) != size:
                raise NotRaised(f"loop {axis_name(loop)} ends at {end}, which is no fixed size")
        if size < 1:
            raise NotRaised(f"loop {axis_name(loop)} may have no iteration")
        name = self.name(loop, size, lower)
        return Axis(name, size, atom, step, lower, tuple(limits), folded)

    def _starts_a_tile(self, lower: Form) -> bool:
        if len(lower.terms) != 1 or lower != Form.of(lower.terms[0][0]):
            return False
        loop = self.forms.loops.get(lower.terms[0][0])
        return loop is not None and self.is_tile(loop)

    def joined(self, outer: Loop, inner: Loop, *, folded: bool) -> Axis | None:
        """Two loops that walk tiles and the points of each, as one axis over all points.

        ::

            for kk in 0..K step 8 { for k in kk..min(kk + 8, K) { … } }   →   for k in 0..K { … }
        """
        first, last, step = self._bounds(outer)
        lower, upper, inner_step = self._bounds(inner)
        start = Form.of(self.variable(outer))
        if lower != start or inner_step != 1 or step is None or step < 2:
            return None
        if first.number is None or last.number is None:
            return None
        ends = set(_ends(upper))
        size = last.number - first.number
        whole = {start + step, Form((), last.number)}
        if size < 1 or (ends != whole and (ends != {start + step} or size % step)):
            return None
        name = self.name(inner, size, first)
        return Axis(name, size, self.variable(inner), 1, first, (), folded)

    def _bounds(self, loop: Loop) -> tuple[Form, Form, int | None]:
        if isinstance(loop, tile.ForOp):
            return Form(), Form((), loop.extent.value.data), loop.step.value.data
        lower, upper = self.forms.form(loop.lb), self.forms.form(loop.ub)
        return lower, upper, self.forms.constant(loop.step)


def _ends(upper: Form) -> tuple[Form, ...]:
    """The sums that a loop's variable stays below: those of a minimum, also one in another."""
    if len(upper.terms) == 1 and upper.terms[0][1] == 1 and upper.terms[0][0].name == "min":
        atom = upper.terms[0][0]
        return tuple(e + int(upper.constant) for each in atom.uppers for e in _ends(each))
    return (upper,)


@dataclass
class Places:
    """Affine expressions for sums over the variables of loops, at the points of a leaf.

    ``axes`` are the leaf's dimensions, ``symbols`` the position of each loop's variable among the
    leaf's ``ivs``.
    """

    axes: Sequence[Axis]
    symbols: dict[Atom, int]

    def expression(self, form: Form) -> AffineExpr:
        """A sum as an affine expression; ``NotRaised`` where it holds another number."""
        total: AffineExpr = AffineExpr.constant(int(form.constant))
        if not isinstance(form.constant, int):
            raise NotRaised(f"index {form} is no sum of whole numbers")
        parts: list[AffineExpr] = []
        for atom, factor in form.terms:
            if not isinstance(factor, int):
                raise NotRaised(f"index {form} is no sum of whole numbers")
            parts.append(self._atom(atom, form) * factor)
        for part in parts[1:]:
            parts[0] = parts[0] + part
        if not parts:
            return total
        return parts[0] + int(form.constant) if form.constant else parts[0]

    def _atom(self, atom: Atom, form: Form) -> AffineExpr:
        for position, axis in enumerate(self.axes):
            if axis.atom is not atom:
                continue
            own: AffineExpr = AffineExpr.dimension(position)
            if axis.loop is not None:
                own = AffineExpr.symbol(self.symbols[atom]) + own
            own = own * axis.step if axis.step != 1 else own
            return own if axis.lower.number == 0 else self.expression(axis.lower) + own
        if atom in self.symbols:
            return AffineExpr.symbol(self.symbols[atom])
        raise NotRaised(f"index {form} is no sum over loops: it holds {atom.name}")
