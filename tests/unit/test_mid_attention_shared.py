"""Attention as one nest of tiles that the threads of a block share: what it computes and reads."""

import dataclasses

import numpy as np
import pytest
from building import context
from mid_building import assert_close, result_specs, sample, spec
from unit.test_mid_attention import attention, operands
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.tile import count_reads, run_tile_module

TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}
KIB = 1024


def nests_of(module, products=("f16", "bf16"), shared_bytes=48 * KIB):
    facts = dataclasses.replace(
        context().facts, shared_bytes=shared_bytes, tile_products=tuple(products)
    )
    made = module.clone()
    LowerToNestsPass().run(made, context(facts=facts))
    made.verify()
    verify_tile(made)
    assert print_ir(made).count("func.call") == 1
    assert print_ir(parse_ir(print_ir(made))) == print_ir(made)
    return made


def check(module, arrays, tolerance, **facts):
    """The nest on the interpreter agrees with the reference."""
    (wanted,) = run_module(module, "k", arrays)
    nests = nests_of(module, **facts)
    (each,) = result_specs(module)
    made = np.full(each.shape, 3, each.dtype.numpy)
    run_tile_module(nests, arrays, [made])
    assert_close(made, wanted, tolerance)
    return nests


SIZES = [(1, 1, 1, 1), (3, 17, 1, 3), (17, 3, 8, 1), (33, 127, 17, 5), (64, 128, 16, 32)]
SIZES += [(127, 65, 3, 17), (5, 200, 8, 8), (130, 64, 72, 33)]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_sizes(sizes, causal, dtype):
    specs, arrays = operands((2,), *sizes, dtype=dtype)
    check(attention(specs, causal=causal), arrays, TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("bool", (40, 70)),
        ("own", (2, 1, 40, 70)),
        ("bool", (70,)),
        ("own", (1, 70)),
        ("bool", (40, 1)),
        ("own", (2, 3, 1, 1)),
    ],
)
@pytest.mark.parametrize("own", ["f32", "bf16"])
def test_masks_stretch(dtype, shape, own):
    specs, arrays = operands((2, 3), 40, 70, 8, 8, own)
    mask = sample(spec(shape, own if dtype == "own" else dtype))
    if dtype == "bool":
        mask = mask | (np.random.default_rng(0).random(shape) < 0.5)
    else:
        mask = np.clip(mask.astype(np.float32), -3, 3).astype(mask.dtype)
    made = attention(specs, spec(shape, own if dtype == "own" else dtype))
    check(made, [*arrays, mask], TOLERANCE[own])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_rows_that_see_nothing_are_zero(causal, dtype):
    specs, arrays = operands((), 40, 70, 8, 8, dtype)
    mask = np.random.default_rng(1).random((40, 70)) < 0.3
    mask[[0, 7, 39]] = False
    check(
        attention(specs, spec((40, 70), "bool"), causal=causal), [*arrays, mask], TOLERANCE[dtype]
    )
    added = np.where(mask, 0, -np.inf).astype(arrays[0].dtype)
    module = attention(specs, spec((40, 70), dtype), causal=causal)
    check(module, [*arrays, added], TOLERANCE[dtype])


@pytest.mark.parametrize("scale", [3.0, 0.0, -1.5])
def test_any_scale_and_scores_that_grow(scale):
    specs, arrays = operands((), 8, 200, 4, 4)
    arrays[1] *= np.linspace(1, 20, 200, dtype=np.float32)[:, None]
    check(attention(specs, scale=scale), arrays, 1e-5)


def test_special_scores_and_values_go_where_the_reference_puts_them():
    specs, arrays = operands((), 12, 150, 4, 6)
    for array, places in zip(arrays, ([3], [5, 100], [7, 140]), strict=True):
        array[places, 1] = [np.nan, np.inf][: len(places)]
    check(attention(specs), arrays, TOLERANCE["f32"])


def test_heads_stretch_and_are_shared():
    random = np.random.default_rng(0)
    shapes = [(2, 4, 9, 8), (1, 4, 20, 8), (4, 20, 3)]
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    check(attention([spec(shape) for shape in shapes]), arrays, TOLERANCE["f32"])
    shapes = [(2, 6, 9, 8), (2, 2, 20, 8), (2, 2, 20, 3)]
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    module = attention([spec(shape) for shape in shapes], enable_gqa=True)
    check(module, arrays, TOLERANCE["f32"])


@pytest.mark.parametrize("causal", [False, True])
def test_each_block_of_queries_reads_keys_and_values_once(causal):
    specs, arrays = operands((2,), 150, 200, 8, 6, dtype="f16")
    nests = nests_of(attention(specs, causal=causal))
    queries, keys, values = count_reads(nests, arrays, [np.zeros((2, 150, 6), np.float16)])
    assert np.all(queries == 1)
    # Blocks of 64 queries (of 128 there would be two, one nearly empty) and 64 keys.
    ends = (64, 128, 192)
    wanted = np.full(200, len(ends))
    if causal:
        wanted = np.array([sum(j // 64 * 64 < end for end in ends) for j in range(200)])
    for found in (keys, values):
        np.testing.assert_array_equal(found, np.broadcast_to(wanted[:, None], found.shape))


def test_no_scores_lie_in_memory():
    specs, _ = operands((), 512, 512, 16, 16)
    assert "512x512" not in print_ir(nests_of(attention(specs)))
