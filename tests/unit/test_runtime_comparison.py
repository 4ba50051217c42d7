"""Results beside the reference: what rounding explains and what it does not."""

import numpy as np
import pytest
from wia_compiler.runtime.comparison import compare


@pytest.mark.parametrize(
    ("got", "wanted", "agrees"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0 + 4e-7], [1.0, 2.0], True),
        ([1.0, 2.1], [1.0, 2.0], False),
        ([np.nan, 2.0], [np.nan, 2.0], True),
        ([np.nan, 2.0], [1.0, 2.0], False),
        ([1.0, 2.0], [np.nan, 2.0], False),
        ([np.inf, 2.0], [np.inf, 2.0], True),
        ([-np.inf, 2.0], [np.inf, 2.0], False),
        ([], [], True),
    ],
)
def test_comparison(got, wanted, agrees):
    got, wanted = np.array(got, np.float32), np.array(wanted, np.float32)
    assert compare("B", got, wanted, 8).agrees is agrees


def test_comparison_of_integers_is_exact_and_of_shapes_strict():
    ones = np.ones(3, np.int32)
    assert compare("B", ones, ones, 8).agrees
    assert not compare("B", ones, ones + np.int32(1), 8).agrees
    assert not compare("B", ones, np.ones(2, np.int32), 8).agrees
    assert not compare("B", ones, np.ones(3, np.int64), 8).agrees


def test_large_integers_are_told_apart():
    large = np.array([2**62], np.int64)
    assert not compare("B", large, large + 1, 8).agrees


def test_a_coarser_multiplication_and_large_inputs_are_allowed_for():
    got, wanted = np.array([1.01], np.float32), np.array([1.0], np.float32)
    assert not compare("B", got, wanted, 8).agrees
    assert compare("B", got, wanted, 8, operand_epsilon=2.0**-7).agrees
    # What is left after large numbers cancel carries their rounding.
    assert not compare("B", got - 1, wanted - 1, 8).agrees
    assert compare("B", got - 1, wanted - 1, 8, largest_input=1e5).agrees


def test_the_mean_of_infinities_is_shown_without_a_warning():
    both = np.array([np.inf, -np.inf], np.float32)
    assert np.isnan(compare("B", both, both, 8).mean)
