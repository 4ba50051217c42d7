"""Attention of few queries: parts of the keys, joined by a second nest; heads that share keys."""

import dataclasses

import numpy as np
import pytest
import wia_compiler as wia
from building import context
from mid_building import assert_close, result_specs, sample, spec
from unit.test_mid_attention import attention
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.tile import count_reads, run_tile_module

TOLERANCE = {"f32": 2e-6, "f16": 2e-3}


def nests_of(module, processors=8):
    """The nests on a target of so many processors, where a launch costs little."""
    facts = dataclasses.replace(
        context().facts,
        shared_bytes=48 * 1024,
        tile_products=("f16",),
        parallel_rows=processors,
        launch_cost_bytes=64,
    )
    made = module.clone()
    LowerToNestsPass().run(made, context(facts=facts))
    made.verify()
    verify_tile(made)
    assert print_ir(parse_ir(print_ir(made))) == print_ir(made)
    return made


def grouped(heads, key_heads, queries, keys, width, dtype="f32"):
    shapes = [(heads, queries, width), *[(key_heads, keys, width)] * 2]
    random = np.random.default_rng(keys)
    arrays = [random.standard_normal(s).astype(DTYPES[dtype].numpy) for s in shapes]
    return [spec(shape, dtype) for shape in shapes], arrays


def check(module, arrays, tolerance, calls, **options):
    """The nests agree with the reference, and there are so many of them."""
    (wanted,) = run_module(module, "k", arrays)
    nests = nests_of(module, **options)
    assert print_ir(nests).count("func.call") == calls
    (each,) = result_specs(module)
    made = np.full(each.shape, 3, each.dtype.numpy)
    run_tile_module(nests, arrays, [made])
    assert_close(made, wanted, tolerance)
    return nests


@pytest.mark.parametrize(
    ("sizes", "calls"),
    [
        ((1, 1, 1, 300, 5), 2),  # one query
        ((4, 2, 3, 700, 8), 2),  # two heads' queries are rows of a tile, the last part is short
        ((6, 1, 17, 257, 3), 2),  # rows of more than one tile, one key beyond the last one
        ((4, 2, 3, 60, 8), 1),  # too few keys for parts
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_sizes(sizes, calls, dtype):
    specs, arrays = grouped(*sizes, dtype)
    check(attention(specs, enable_gqa=True), arrays, TOLERANCE[dtype], calls)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("bool", (4, 3, 300)), ("f32", (1, 3, 300)), ("bool", (4, 1, 1))]
)
def test_masks_of_joined_heads_and_rows_that_see_nothing(dtype, shape):
    specs, arrays = grouped(4, 2, 3, 300, 8)
    mask = sample(spec(shape, dtype))
    if dtype == "bool":
        mask = np.random.default_rng(0).random(shape) < 0.1
        mask[0, 0] = False
    else:
        mask[0, 1] = -np.inf
    made = attention(specs, spec(shape, dtype), enable_gqa=True)
    check(made, [*arrays, mask], TOLERANCE["f32"], 2)


def test_joined_heads_are_masked_each_by_its_own_diagonal():
    """Keys behind the last query are neither read nor parts of anything."""
    specs, arrays = grouped(4, 2, 3, 300, 8)
    nests = check(attention(specs, causal=True, enable_gqa=True), arrays, TOLERANCE["f32"], 1)
    for array in arrays[1:]:
        array[:, 64:] = np.nan
    _, keys, values = count_reads(nests, arrays, [np.zeros((4, 3, 8), np.float32)])
    assert not keys[:, 64:].any() and not values[:, 64:].any()


def test_special_scores_and_values_go_where_the_reference_puts_them():
    specs, arrays = grouped(2, 1, 4, 300, 6)
    for array, places in zip(arrays, ([3], [5, 200], [7, 140]), strict=True):
        array[0, places, 1] = [np.nan, np.inf][: len(places)]
    check(attention(specs, enable_gqa=True), arrays, TOLERANCE["f32"], 2)


@pytest.mark.parametrize("scale", [3.0, 0.0, -1.5])
def test_any_scale(scale):
    specs, arrays = grouped(2, 1, 4, 300, 6)
    check(attention(specs, scale=scale, enable_gqa=True), arrays, 1e-5, 2)


def test_keys_are_read_once_for_all_queries_that_share_them():
    specs, arrays = grouped(4, 2, 3, 300, 8)
    nests = nests_of(attention(specs, enable_gqa=True))
    _, keys, values = count_reads(nests, arrays, [np.zeros((4, 3, 8), np.float32)])
    assert np.all(keys == 1) and np.all(values == 1)


def test_equal_calls_share_nests_but_not_what_lies_between_them():
    """Two attentions of one shape in a kernel: both nests once, called twice, each right."""
    text = """kernel k(input q: tensor, input k: tensor, input v: tensor, output y: tensor) {
      h = attention(q, k, v); y = attention(h, k, v); }"""
    arrays = [
        np.random.default_rng(n).standard_normal((2, s, 8)) for n, s in enumerate((1, 2000, 2000))
    ]
    arrays = [each.astype(np.float32) for each in arrays]
    build = wia.compile(text).k.build(*arrays, target="gpu:sm_80")
    assert str(build.stage("loops").text).count("func.call") == 4
    assert str(build.stage("loops").text).count("wia.nest") == 2
    np.testing.assert_allclose(
        build(*arrays), wia.reference(wia.compile(text).k, *arrays), atol=2e-6
    )
