"""The library's kernels compile, and their references take the shapes they list."""

from __future__ import annotations

import math

import numpy as np
import pytest
import wia_kernels
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program

NAMES = (
    "attention",
    "avg_pool_smooth",
    "causal_attention",
    "classification_loss",
    "conv_bias_relu",
    "eighths",
    "gelu",
    "layer_norm",
    "matmul",
    "matmul_bias_relu",
    "max_pool_halves",
    "rms_norm",
    "saxpy",
    "softmax",
    "squared_error",
    "vector_add",
)


def test_the_folder_is_the_register() -> None:
    assert set(NAMES) <= set(wia_kernels.names())
    assert list(wia_kernels.names()) == sorted(wia_kernels.names())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no kernel 'sotfmax'; there are: .*softmax"):
        wia_kernels.get("sotfmax")


@pytest.mark.parametrize("name", wia_kernels.names())
def test_the_text_is_one_kernel_of_that_name_with_comments(name: str) -> None:
    definition = wia_kernels.get(name)
    program = import_program(parse(Source(definition.text)))
    program.module.verify()
    assert list(program.kernels) == [name] == [definition.name]
    assert "//" in definition.text
    assert definition.doc
    assert set(definition.dtypes) <= set(DTYPES)
    inputs = program.kernels[name].inputs
    for shapes in definition.shapes:
        assert len(shapes) == len(inputs)
        for shape, parameter in zip(shapes, inputs, strict=True):
            assert parameter.role != "scalar" or shape == ()
            if parameter.type.dims is not None:
                assert len(shape) == len(parameter.type.dims)


@pytest.mark.parametrize("name", wia_kernels.names())
def test_the_reference_takes_every_shape(name: str) -> None:
    definition = wia_kernels.get(name)
    generator = np.random.default_rng(1)
    for shapes in definition.shapes:
        arrays = [generator.standard_normal(shape) for shape in shapes]
        result = np.asarray(definition.reference(*arrays))
        assert result.dtype == np.float64
        assert np.isfinite(result).all()


def test_sizes_that_are_no_multiple_of_anything_are_listed() -> None:
    for name in wia_kernels.names():
        sizes = {size for case in wia_kernels.get(name).shapes for shape in case for size in shape}
        assert {0, 1, 3} <= sizes
        assert any(size % 2 and size > 10 for size in sizes)


def test_references_against_values_worked_out_by_hand() -> None:
    get = wia_kernels.get
    assert get("saxpy").reference(np.array([1.0]), np.array([3.0]), 2.0) == [5.0]
    assert get("saxpy").reference(np.array([1.0]), np.array([3.0])) == [4.0]
    np.testing.assert_allclose(
        get("gelu").reference(np.array([0.0, 1.0, -1.0])), [0, 0.8413447460685429, -0.1586552539]
    )
    np.testing.assert_allclose(
        get("softmax").reference(np.array([[0.0, math.log(3)]])), [[0.25, 0.75]]
    )
    assert get("softmax").reference(np.array([1000.0, 1000.0])).tolist() == [0.5, 0.5]
    one = np.ones(2)
    np.testing.assert_allclose(
        get("layer_norm").reference(np.array([[1.0, 3.0]]), one, one), [[0, 2]], atol=1e-5
    )
    np.testing.assert_allclose(
        get("rms_norm").reference(np.array([[1.0, 7.0]]), one), [[0.2, 1.4]], atol=1e-6
    )
    image = np.arange(9.0).reshape(1, 1, 3, 3)
    sums = get("conv_bias_relu").reference(image, np.ones((1, 1, 3, 3)), -9 * np.ones((1, 1, 1)))
    assert sums.tolist() == [[[[0, 6, 3], [12, 27, 18], [11, 24, 15]]]]
    dense = get("matmul_bias_relu").reference(np.eye(2), np.eye(2), np.array([-1.0, 1.0]))
    assert dense.tolist() == [[0, 1], [0, 2]]
