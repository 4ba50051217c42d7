"""Attention as one nest: blocks of queries and keys, running softmax, masks, what it reads."""

import dataclasses

import numpy as np
import pytest
import wia_compiler as wia
from building import context
from mid_building import assert_close, kernel, result_specs, sample, spec
from point_code import on_cpu
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.wia.ops import make_op
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.tile import count_reads, run_tile_module

TOLERANCE = {"f64": 1e-13, "f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}


def attention(specs, mask=None, **attributes):
    """A kernel of one call; ``mask`` is its spec."""

    def body(ops, q, k, v, *rest):
        operands = {"query": q, "key": k, "value": v}
        if rest:
            operands["mask"] = rest[0]
        return ops.append(make_op("attention", operands, attributes))

    return kernel([*specs, *([mask] if mask is not None else [])], body)


def nests_of(module, vector_bytes=32, registers=16):
    facts = dataclasses.replace(
        context().facts,
        keeps_tiles=True,
        vector_bytes=vector_bytes,
        register_capacity=registers * vector_bytes // 4,
    )
    made = module.clone()
    LowerToNestsPass().run(made, context(facts=facts))
    made.verify()
    verify_tile(made)
    assert print_ir(made).count("func.call") == 1
    assert print_ir(parse_ir(print_ir(made))) == print_ir(made)
    return made


def check(module, arrays, tolerance, **facts):
    """The reference, the interpreter and CPU code agree; what each query row reads."""
    (wanted,) = run_module(module, "k", arrays)
    nests = nests_of(module, **facts)
    (each,) = result_specs(module)
    for run in (run_tile_module, on_cpu):
        made = np.full(each.shape, 3, each.dtype.numpy)
        run(nests, arrays, [made])
        assert_close(made, wanted, tolerance)
    return nests


def operands(batch, queries, keys, width, values, dtype="f32"):
    shapes = [(*batch, queries, width), (*batch, keys, width), (*batch, keys, values)]
    specs = [spec(shape, dtype) for shape in shapes]
    random = np.random.default_rng(sum(shapes[0]) + keys)
    return specs, [random.standard_normal(s).astype(DTYPES[dtype].numpy) for s in shapes]


SIZES = [(1, 1, 1, 1), (3, 17, 1, 3), (17, 3, 8, 1), (33, 127, 17, 5), (64, 128, 16, 32)]
SIZES += [(127, 65, 3, 17), (5, 200, 8, 8)]
PAIRS = [(sizes, number % 2 == 1) for number, sizes in enumerate(SIZES)]
PAIRS += [(sizes, not causal) for sizes, causal in PAIRS[3:6]]


@pytest.mark.parametrize(("sizes", "causal"), PAIRS)
def test_sizes(sizes, causal):
    specs, arrays = operands((2,), *sizes)
    check(attention(specs, causal=causal), arrays, TOLERANCE["f32"])


@pytest.mark.parametrize(
    ("dtype", "facts"),
    [
        ("f64", (16, 16)),
        ("f64", (64, 32)),
        ("f32", (16, 16)),
        ("f32", (64, 32)),
        ("f32", (4, 64)),
        ("f16", (32, 16)),
        ("bf16", (64, 32)),
    ],
)
def test_dtypes_and_vectors_of_every_width(dtype, facts):
    specs, arrays = operands((), 37, 70, 9, 11, dtype)
    check(
        attention(specs, causal=True),
        arrays,
        TOLERANCE[dtype],
        vector_bytes=facts[0],
        registers=facts[1],
    )


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("bool", (40, 70)),
        ("f32", (2, 1, 40, 70)),
        ("bool", (70,)),
        ("f32", (1, 70)),
        ("bool", (40, 1)),
        ("f32", (2, 3, 1, 1)),
    ],
)
def test_masks_stretch(dtype, shape):
    specs, arrays = operands((2, 3), 40, 70, 8, 8)
    mask = sample(spec(shape, dtype))
    if dtype == "bool":
        mask = mask | (np.random.default_rng(0).random(shape) < 0.5)
    check(attention(specs, spec(shape, dtype)), [*arrays, mask], TOLERANCE["f32"])


@pytest.mark.parametrize("causal", [False, True])
def test_rows_that_see_nothing_are_zero(causal):
    specs, arrays = operands((), 40, 70, 8, 8)
    mask = np.random.default_rng(1).random((40, 70)) < 0.3
    mask[[0, 7, 39]] = False
    module = attention(specs, spec((40, 70), "bool"), causal=causal)
    check(module, [*arrays, mask], TOLERANCE["f32"])
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    module = attention(specs, spec((40, 70)), causal=causal)
    check(module, [*arrays, added], TOLERANCE["f32"])
    (found,) = run_module(module, "k", [*arrays, added])
    np.testing.assert_array_equal(found[[0, 7, 39]], 0)


def test_special_scores_and_values_go_where_the_reference_puts_them():
    specs, arrays = operands((), 12, 150, 4, 6)
    for array, places in zip(arrays, ([3], [5, 100], [7, 140]), strict=True):
        array[places, 1] = [np.nan, np.inf][: len(places)]
    check(attention(specs), arrays, TOLERANCE["f32"])


def test_large_scores_do_not_overflow_and_a_later_larger_one_scales_back():
    specs, arrays = operands((), 8, 200, 4, 4)
    arrays[1] *= np.linspace(1, 200, 200, dtype=np.float32)[:, None]
    check(attention(specs, scale=3.0), arrays, TOLERANCE["f32"])


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
    specs, arrays = operands((2,), 70, 130, 8, 6, dtype="f16")
    nests = nests_of(attention(specs, causal=causal))
    outputs = [np.zeros((2, 70, 6), np.float16)]
    queries, keys, values = count_reads(nests, arrays, outputs)
    assert np.all(queries == 1)
    blocks = -(-70 // 64)
    if not causal:
        assert np.all(keys == blocks) and np.all(values == blocks)
        return
    # Keys behind all queries of a block are not fetched for it: blocks of 64 keys, 64 queries.
    seen = np.array([sum(j // 64 * 64 < min(i + 64, 70) for i in (0, 64)) for j in range(130)])
    np.testing.assert_array_equal(keys, np.broadcast_to(seen[:, None], (2, 130, 8)))
    np.testing.assert_array_equal(values, np.broadcast_to(seen[:, None], (2, 130, 6)))


def test_keys_and_values_are_read_where_they_lie_if_products_can():
    specs, _ = operands((), 64, 128, 16, 16)
    assert "key_tile" not in print_ir(nests_of(attention(specs)))
    narrow, _ = operands((), 64, 128, 16, 16, dtype="f16")
    assert "key_tile" in print_ir(nests_of(attention(narrow)))


@pytest.mark.parametrize(("query", "key"), [(32, 48), (5, 3), (200, 17)])
def test_a_schedule_says_how_large_the_tiles_are(query, key):
    text = "kernel k(input q: tensor, input k: tensor, input v: tensor, output y: tensor) {\n"
    text += f"y = attention(q, k, v); }} schedule k {{ tile query {query}, key {key}; }}"
    random = np.random.default_rng(query)
    arrays = [random.standard_normal((2, 70, 8)).astype(np.float32) for _ in range(3)]
    made = wia.compile(text).k.build(*arrays)
    assert f"tile query {query}, key {key};" in made.schedule
    assert np.abs(made(*arrays) - wia.reference(wia.compile(text).k, *arrays)).max() < 2e-6


def test_the_default_tiles_are_printed_and_give_the_same_code_when_pasted():
    text = "kernel k(input q: tensor, input k: tensor, input v: tensor, output y: tensor) {\n"
    text += "y = attention(q, k, v); }"
    arrays = [wia.spec((4, 64, 16), "f32")] * 3
    made = wia.compile(text).k.build(*arrays)
    assert "tile query 64, key 64;" in made.schedule
    pasted = wia.compile(text + made.schedule).k.build(*arrays)
    assert pasted.assembly("llvm") == made.assembly("llvm")


def test_other_tiles_of_an_attention_are_refused():
    text = "kernel k(input q: tensor, input k: tensor, input v: tensor, output y: tensor) {\n"
    text += "y = attention(q, k, v); } schedule k { tile i 8; }"
    with pytest.raises(wia.CompileError, match="tiles of query, key"):
        wia.compile(text).k.build(*[wia.spec((64, 16), "f32")] * 3)


def test_no_scores_lie_in_memory():
    specs, _ = operands((), 512, 512, 16, 16)
    text = print_ir(nests_of(attention(specs)))
    assert "512x512" not in text
