"""Emission of low-level ops into nested blocks, each index computed once where it is visible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import TypeVar, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.backends.gpu.index import Atom, Index
from wia_compiler.passes.tile_rewrites import scope_of

OpT = TypeVar("OpT", bound=Operation)
Key = tuple[object, ...]


Element = tuple[SSAValue, tuple[int, ...]]


class Builder:
    """Appends ops to the innermost open block, each with the current ``location``.

    What an element of a register buffer holds is remembered where it is certain, so that straight
    code passes values on instead of storing and loading them.
    """

    def __init__(self, block: Block, location: LocationAttr | None = None):
        self.location: LocationAttr = location or UnknownLoc()
        self._entry = block
        self._blocks = [block]
        self._known: list[dict[Key, SSAValue]] = [{}]
        self._held: list[dict[Element, SSAValue]] = [{}]
        self._written: list[set[SSAValue]] = [set()]

    def add(self, op: OpT, location: LocationAttr | None = None) -> OpT:
        """Append an op."""
        op.location = location or self.location
        self._blocks[-1].add_op(op)
        return op

    def at_entry(self, op: OpT) -> OpT:
        """Put an op at the very start of the function."""
        op.location = self.location
        if self._entry.first_op is None:
            self._entry.add_op(op)
        else:
            self._entry.insert_op_before(op, self._entry.first_op)
        return op

    def once(self, key: Key, make: Callable[[], SSAValue]) -> SSAValue:
        """The value made for ``key`` in this block or one around it, else a new one."""
        for known in reversed(self._known):
            if key in known:
                return known[key]
        value = make()
        self._known[-1][key] = value
        return value

    @contextmanager
    def inside(self, block: Block, *, changing: Collection[SSAValue] = ()) -> Generator[None]:
        """Append to ``block`` for a while.

        ``changing`` are register buffers of which it is not known what they hold there: in a loop,
        those that it writes, since an earlier turn may have.
        """
        self._blocks.append(block)
        self._known.append({})
        held = self._held[-1]
        self._held.append({each: held[each] for each in held if each[0] not in changing})
        self._written.append(set())
        try:
            yield
        finally:
            self._blocks.pop()
            self._known.pop()
            self._held.pop()
            written = self._written.pop()
            self._written[-1] |= written
            held = self._held[-1]
            for element in [each for each in held if each[0] in written]:
                del held[element]

    def number(self, value: int | float, type: Attribute) -> SSAValue:
        """A constant of an integer, index or float type."""
        attribute = (
            IntegerAttr(int(value), cast("IntegerType | IndexType", type))
            if isinstance(type, IntegerType | IndexType)
            else FloatAttr(float(value), cast(AnyFloat, type))
        )
        return self.once(
            ("number", attribute), lambda: self.add(arith.ConstantOp(attribute)).result
        )

    def index(self, index: Index) -> SSAValue:
        """The SSA value of an index."""
        if index.is_constant:
            return self.number(index.constant, IndexType())
        total = self.once(("sum", index.terms), lambda: self._sum(index))
        if index.constant == 0:
            return total
        offset = self.number(index.constant, IndexType())
        return self.once(
            ("offset", total, index.constant),
            lambda: self.add(arith.AddiOp(total, offset)).result,
        )

    def _sum(self, index: Index) -> SSAValue:
        total: SSAValue | None = None
        for atom, factor in index.terms:
            term = self._atom(atom)
            if factor != 1:
                by = self.number(factor, IndexType())
                term = self.add(arith.MuliOp(term, by)).result
            total = term if total is None else self.add(arith.AddiOp(total, term)).result
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> SSAValue:
        if atom.value is not None:
            return atom.value
        assert atom.operand is not None
        operand = self.index(atom.operand)
        divisor = self.number(atom.divisor, IndexType())
        if atom.operand.range[0] >= 0:
            # Unsigned division by a constant is a multiplication and a shift, or a shift alone.
            operation = arith.DivUIOp if atom.operation == "floordiv" else arith.RemUIOp
            return self.once(("atom", atom), lambda: self.add(operation(operand, divisor)).result)
        return self.once(("atom", atom), lambda: self._signed(atom, operand, divisor))

    def _signed(self, atom: Atom, operand: SSAValue, divisor: SSAValue) -> SSAValue:
        """Floor division and its remainder of what may be negative."""
        assert atom.operand is not None
        # Shifting by a multiple of the divisor makes the dividend non-negative.
        lift = -(atom.operand.range[0] // atom.divisor)
        shift = self.number(lift * atom.divisor, IndexType())
        lifted = self.add(arith.AddiOp(operand, shift)).result
        if atom.operation == "mod":
            return self.add(arith.RemUIOp(lifted, divisor)).result
        quotient = self.add(arith.DivUIOp(lifted, divisor)).result
        return self.add(arith.SubiOp(quotient, self.number(lift, IndexType()))).result

    def within(self, index: Index, limit: int) -> SSAValue | None:
        """Whether ``0 <= index < limit``; ``None`` where that is always so."""
        low, high = index.range
        if low >= 0 and high < limit:
            return None
        # With factors of g, g * q + r < limit (0 <= r < g) asks the same of every r up to a
        # multiple of g: neighbours share one comparison.
        common = gcd(*(factor for _, factor in index.terms))
        if common > 1:
            rest = index.constant % common
            index, limit = index + -rest, -(-(limit - rest) // common) * common
            low, high = index.range
        # As unsigned numbers, negative indices are larger than any limit.
        value, bound = self.index(index), self.number(limit, IndexType())
        predicate = "slt" if low >= 0 else "ult"
        return self.once(
            ("within", value, limit),
            lambda: self.add(arith.CmpiOp(value, bound, predicate)).result,
        )

    def all_of(self, conditions: Sequence[SSAValue | None]) -> SSAValue | None:
        """The conjunction; ``None`` where nothing is to be asked."""
        asked = [each for each in dict.fromkeys(conditions) if each is not None]
        if not asked:
            return None
        whole = asked[0]
        for each in asked[1:]:
            whole = self._both(whole, each)
        return whole

    def _both(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.once(("and", left, right), lambda: self.add(arith.AndIOp(left, right)).result)

    def load(self, buffer: SSAValue, indices: Sequence[Index]) -> SSAValue:
        """Read one element."""
        element = _register_element(buffer, indices)
        if element is not None and element in self._held[-1]:
            return self._held[-1][element]
        value = self.add(memref.LoadOp.get(buffer, [self.index(each) for each in indices])).res
        if element is not None:
            self._held[-1][element] = value
        return value

    def store(self, value: SSAValue, buffer: SSAValue, indices: Sequence[Index]) -> None:
        """Write one element."""
        self.add(memref.StoreOp.get(value, buffer, [self.index(each) for each in indices]))
        self._written[-1].add(buffer)
        element = _register_element(buffer, indices)
        if element is not None:
            self._held[-1][element] = value

    def forget(self, buffer: SSAValue) -> None:
        """What a register buffer holds is not known any more: an op wrote it that is no store."""
        self._written[-1].add(buffer)
        held = self._held[-1]
        for element in [each for each in held if each[0] is buffer]:
            del held[element]

    def when(self, condition: SSAValue | None, body: Callable[[], None]) -> None:
        """Run ``body`` where the condition holds; always where it is ``None``."""
        if condition is None:
            body()
            return
        block = Block()
        with self.inside(block):
            body()
            self.add(scf.YieldOp())
        self.add(scf.IfOp(condition, [], Region(block)))

    def either(
        self,
        condition: SSAValue,
        then: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """The values of ``then`` or of ``otherwise``."""
        blocks = (Block(), Block())
        types: list[Attribute] = []
        for block, make in zip(blocks, (then, otherwise), strict=True):
            with self.inside(block):
                values = make()
                types = [value.type for value in values]
                self.add(scf.YieldOp(*values))
        return self.add(scf.IfOp(condition, types, Region(blocks[0]), Region(blocks[1]))).results

    def loop(
        self,
        count: int,
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        *,
        step: int = 1,
        first: SSAValue | None = None,
        carried: Sequence[SSAValue] = (),
        changing: Collection[SSAValue] = (),
    ) -> Sequence[SSAValue]:
        """``scf.for`` from ``first`` (0) below ``count``; the carried values after it.

        ``changing`` are the register buffers that its body writes.
        """
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        low = first if first is not None else self.number(0, IndexType())
        high, by = self.number(count, IndexType()), self.number(step, IndexType())
        with self.inside(block, changing=changing):
            values = body(block.args[0], block.args[1:])
            self.add(scf.YieldOp(*values))
        return self.add(scf.ForOp(low, high, by, list(carried), block)).results

    def repeat(
        self,
        count: int,
        body: Callable[[SSAValue], None],
        *,
        step: int = 1,
        changing: Collection[SSAValue] = (),
    ) -> None:
        """A loop whose turns pass on what the register buffers that it writes hold."""
        elements = [each for each in self._held[-1] if each[0] in changing]

        def turn(position: SSAValue, held: Sequence[SSAValue]) -> Sequence[SSAValue]:
            self._held[-1].update(zip(elements, held, strict=True))
            body(position)
            return [self.load(buffer, [Index((), n) for n in place]) for buffer, place in elements]

        carried = [self._held[-1][each] for each in elements]
        results = self.loop(count, turn, step=step, carried=carried, changing=changing)
        self._held[-1].update(zip(elements, results, strict=True))


def _register_element(buffer: SSAValue, indices: Sequence[Index]) -> Element | None:
    """The element, where it is one of a register buffer at a position known here."""
    if scope_of(buffer) != "register" or not all(each.is_constant for each in indices):
        return None
    return buffer, tuple(each.constant for each in indices)


def element_type(buffer: SSAValue) -> Attribute:
    """The element type of a memref value."""
    return cast("MemRefType[Attribute]", buffer.type).element_type


def shape_of(buffer: SSAValue) -> tuple[int, ...]:
    """The shape of a memref value."""
    return tuple(cast("MemRefType[Attribute]", buffer.type).get_shape())
