"""Index arithmetic: what is simplified is equal at every point, and ranges hold every value."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wia_compiler.passes.affine import (
    atoms,
    floor_divide,
    linear_form,
    modulo,
    range_of,
    simplify,
)
from xdsl.ir.affine import AffineExpr

SIZES = (3, 4, 5)
D0, D1, D2 = (AffineExpr.dimension(axis) for axis in range(3))

expressions = st.recursive(
    st.sampled_from([D0, D1, D2]) | st.integers(0, 7).map(AffineExpr.constant),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, st.integers(0, 6)).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 6)).map(lambda pair: pair[0] // pair[1]),
        st.tuples(inner, st.integers(1, 6)).map(lambda pair: pair[0] % pair[1]),
    ),
    max_leaves=6,
)


def points():
    return product(*(range(size) for size in SIZES))


@settings(deadline=None, max_examples=200)
@given(expressions, st.integers(1, 12))
def test_simplified_expressions_are_equal(expression, divisor):
    simple = simplify(expression)
    quotient = floor_divide(expression, divisor, SIZES)
    remainder = modulo(expression, divisor, SIZES)
    limits = range_of(expression, [(0, size - 1) for size in SIZES])
    assert limits is not None
    for point in points():
        value = expression.eval(point, ())
        assert simple.eval(point, ()) == value
        assert quotient.eval(point, ()) == value // divisor
        assert remainder.eval(point, ()) == value % divisor
        assert limits[0] <= value <= limits[1]


@pytest.mark.parametrize(
    ("expression", "divisor", "quotient", "remainder"),
    [
        (D0 * 4 + D1, 4, "d0", "d1"),
        (D0 * 20 + D1 * 5 + D2, 5, "((d0 * 4) + d1)", "d2"),
        (D1 + 4, 4, "1", "d1"),
        (D0 * 2, 4, "((d0 * 2) floordiv 4)", "((d0 * 2) mod 4)"),
    ],
)
def test_divisions_are_taken_apart(expression, divisor, quotient, remainder):
    assert str(floor_divide(expression, divisor, SIZES)) == quotient
    assert str(modulo(expression, divisor, SIZES)) == remainder


def test_what_a_reshape_takes_apart_is_joined():
    linear = D0 * 4 + D1
    assert str(simplify((linear // 3) * 3 + linear % 3)) == "((d0 * 4) + d1)"
    assert str(simplify((linear // 3) * 6 + (linear % 3) * 2)) == "((d0 * 8) + (d1 * 2))"
    assert "mod" in str(simplify((linear // 3) * 2 + linear % 3))


def test_like_terms_are_joined_and_zeros_dropped():
    form = linear_form(D0 + D1 + D0 * 2 + 3 - D1)
    assert form.terms == {D0: 3} and form.constant == 3 and form.is_linear
    assert atoms((D0 + AffineExpr.symbol(1)) // 3) == {D0, AffineExpr.symbol(1)}
    assert not linear_form(D0 // 2).is_linear
