"""Index arithmetic with ranges, against Python's own integers."""

from itertools import product

import pytest
from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.index import Index, delinearize, of_value
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block

SIZES = (5, 4, 7)


def values():
    """Three values that run below ``SIZES``, as indices."""
    block = Block(arg_types=[IndexType()] * len(SIZES))
    return block, [of_value(arg, size) for arg, size in zip(block.args, SIZES, strict=True)]


def value_of(index: Index, positions: dict) -> int:
    total = index.constant
    for atom, factor in index.terms:
        if atom.value is not None:
            number = positions[atom.value]
        else:
            inner = value_of(atom.operand, positions)
            is_quotient = atom.operation == "floordiv"
            number = inner // atom.divisor if is_quotient else inner % atom.divisor
        assert atom.low <= number <= atom.high
        total += factor * number
    return total


def everywhere(block):
    for numbers in product(*(range(size) for size in SIZES)):
        yield dict(zip(block.args, numbers, strict=True)), numbers


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 8, 28])
@pytest.mark.parametrize("constant", [-9, -1, 0, 3, 30])
def test_division_is_pythons(divisor, constant):
    block, (a, b, c) = values()
    index = a * 28 + b * 7 + c + constant
    for positions, (i, j, k) in everywhere(block):
        number = i * 28 + j * 7 + k + constant
        assert value_of(index, positions) == number
        assert value_of(index.floor_divide(divisor), positions) == number // divisor
        assert value_of(index.modulo(divisor), positions) == number % divisor


def test_division_is_taken_apart():
    _, (a, b, _) = values()
    assert (a * 4 + b).floor_divide(4) == a
    assert (a * 4 + b).modulo(4) == b
    assert (a * 4 + 7).floor_divide(4) == a + 1


def test_delinearize_undoes_linearize():
    _, (a, b, c) = values()
    assert delinearize(a * 28 + b * 7 + c, SIZES) == (a, b, c)
    assert delinearize(Index(), ()) == ()


def test_a_single_position_is_zero():
    block = Block(arg_types=[IndexType()])
    assert of_value(block.args[0], 1) == Index()


def test_comparisons_are_left_out_where_ranges_decide():
    block, (a, b, c) = values()
    builder = Builder(block)
    assert builder.within(a * 28 + b * 7 + c, 140) is None
    assert builder.within(a * 28 + b * 7 + c, 139) is not None


def test_neighbours_share_a_comparison():
    """4 a + r < 18 for r = 0, 1 asks a < 5 and a < 5; for r = 2, 3 it asks a < 4."""
    block, (a, _, _) = values()
    builder = Builder(block)
    asked = [builder.within(a * 4 + r, 18) for r in range(4)]
    assert asked[0] is None and asked[1] is None
    assert asked[2] is asked[3]
    bound = asked[2].owner.operands[1].owner
    assert isinstance(bound, arith.ConstantOp) and bound.value.value.data == 16
