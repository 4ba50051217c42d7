"""Attention on a GPU: one launch whose blocks share tiles, on the simulator, against f64."""

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_programs import compile_text
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.simulators.ptx import run

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
TOLERANCE = {"f64": 1e-13, "f32": 3e-6, "f16": 3e-3, "bf16": 2e-2}
"""Of the largest result; f16 and bf16 round weights and results to 11 and 8 bits."""
CONFLICTS = "shared_memory_bank_conflicts"


def kernel_text(given="", mask=False):
    """A kernel of one call; ``given`` are its attributes."""
    parameter, argument = ("input m: tensor, ", ", m") if mask else ("", "")
    return (
        f"kernel k(input q: tensor, input k: tensor, input v: tensor, {parameter}"
        f"output y: tensor) {{ y = attention(q, k, v{argument}{given}); }}"
    )


def operands(batch, queries, keys, width, values, dtype, heads=None):
    """Random queries, keys and values; ``heads`` is the batch of keys and values."""
    random = np.random.default_rng(queries + keys)
    shared = batch if heads is None else heads
    shapes = [(*batch, queries, width), (*shared, keys, width), (*shared, keys, values)]
    return [random.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


def on_simulator(text, arrays, architecture="sm_80", debug=False):
    """The result, the counters and what was compiled."""
    target = GpuTarget(ARCHITECTURES[architecture], with_sass=False).with_simulator(run)
    compiled = compile_text(text, arrays, target)
    outputs = [np.full(each.spec.shape, 7, each.spec.dtype.numpy) for each in compiled.outputs]
    counters = target.load(compiled.artifact)(arrays, outputs)
    return outputs[0], dict(counters), compiled


def reference(text, arrays):
    """The result in f64."""
    wide = [each if each.dtype == bool else each.astype(np.float64) for each in arrays]
    return wia.reference(wia.compile(text).k, *wide)


def check(arrays, dtype, given="", architecture="sm_80"):
    """One launch without a workspace, whose result is that of the reference."""
    text = kernel_text(given, len(arrays) > 3)
    found, counters, compiled = on_simulator(text, arrays, architecture)
    wanted = reference(text, arrays)
    largest = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
    np.testing.assert_allclose(
        found.astype(np.float64), wanted, rtol=0, atol=TOLERANCE[dtype] * largest
    )
    if wanted.size and arrays[1].size and dtype != "f64":
        assert len(compiled.artifact.metadata["launches"]) == 1
        assert compiled.artifact.metadata["workspace_bytes"] == []
    return counters, compiled


SIZES = [(1, 1, 1, 1), (3, 17, 1, 3), (17, 3, 33, 8), (127, 65, 40, 24), (64, 128, 32, 64)]
SIZES += [(0, 5, 4, 4), (5, 0, 4, 4)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_of_threads(sizes, causal):
    check(operands((2,), *sizes, dtype="f32"), "f32", f", causal={str(causal).lower()}")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_tensor_cores(sizes, causal, dtype):
    given = f", causal={str(causal).lower()}"
    counters, compiled = check(operands((2,), *sizes, dtype=dtype), dtype, given)
    if np.prod(sizes[:2]):
        assert "mma.sync.aligned.m16n8k16" in compiled.artifact.assembly["ptx"]
        assert counters[CONFLICTS] == 0


@pytest.mark.parametrize("width", [32, 80, 128, 192, 256])
def test_any_width_of_a_head(width):
    counters, _ = check(operands((1,), 70, 90, width, width, "f16"), "f16", ", causal=true")
    assert counters[CONFLICTS] == 0
    check(operands((1,), 20, 40, width, max(width - 3, 1), "f32"), "f32")


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_long_sequences(dtype):
    check(operands((), 1, 1000, 64, 64, dtype), dtype)
    check(operands((), 1000, 127, 32, 32, dtype), dtype, ", causal=true")


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_turing(dtype):
    """f16 in pieces of m16n8k8; bf16 widened, since there are no units for it."""
    _, compiled = check(operands((2,), 70, 130, 40, 64, dtype), dtype, architecture="sm_75")
    ptx = compiled.artifact.assembly["ptx"]
    assert ("mma.sync.aligned.m16n8k8" in ptx) == (dtype == "f16")
    assert "cp.async" not in ptx


def test_f64_is_written_out_and_a_decision_says_why():
    _, compiled = check(operands((2,), 20, 30, 8, 8, "f64"), "f64")
    (refused,) = [each for each in decisions(compiled, "nest") if each.candidate == "attention"]
    assert not refused.taken and "twice the registers" in refused.reason


def test_heads_that_are_too_wide_are_written_out():
    arrays = operands((), 20, 30, 264, 8, "f16")
    found, _, compiled = on_simulator(kernel_text(), arrays)
    np.testing.assert_allclose(found, reference(kernel_text(), arrays), atol=TOLERANCE["f16"])
    (refused,) = [each for each in decisions(compiled, "nest") if each.candidate == "attention"]
    assert "264 wide" in refused.reason


def decisions(compiled, kind):
    """The decisions of a kind, of all stages."""
    return [each for s in compiled.trace.stages for each in s.decisions if each.kind == kind]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("bool", (40, 70)),
        ("own", (2, 1, 40, 70)),
        ("bool", (70,)),
        ("own", (1, 70)),
        ("own", (1, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_masks_stretch(dtype, kind, shape):
    arrays = operands((2, 3), 40, 70, 32, 16, dtype)
    random = np.random.default_rng(1)
    mask = random.random(shape) < 0.7
    if kind == "own":
        mask = random.uniform(-3, 3, shape).astype(DTYPES[dtype])
    check([*arrays, mask], dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_rows_that_see_nothing_are_zero(dtype, causal):
    arrays = operands((), 40, 70, 16, 16, dtype)
    mask = np.random.default_rng(1).random((40, 70)) < 0.3
    mask[[0, 7, 39]] = False
    given = f", causal={str(causal).lower()}"
    check([*arrays, mask], dtype, given)
    added = np.where(mask, 0, -np.inf).astype(DTYPES[dtype])
    check([*arrays, added], dtype, given)
    found, _, _ = on_simulator(kernel_text(given, True), [*arrays, added])
    assert not found[[0, 7, 39]].astype(np.float64).any()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_special_numbers_go_where_the_reference_puts_them(dtype):
    arrays = operands((), 12, 150, 16, 16, dtype)
    for array, places in zip(arrays, ([3], [5, 100], [7, 140]), strict=True):
        array[places, 1] = [np.nan, np.inf][: len(places)]
    check(arrays, dtype)


@pytest.mark.parametrize("scale", [3.0, 0.0, -1.5])
def test_any_scale(scale):
    check(operands((), 40, 70, 16, 16, "f16"), "f16", f", scale={scale}")


def test_heads_are_shared_and_stretch():
    check(operands((2, 6), 40, 70, 32, 32, "f16", heads=(2, 2)), "f16", ", enable_gqa=true")
    check(operands((2, 6), 40, 70, 32, 32, "f32", heads=(6,)), "f32")


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_strided_operands(dtype):
    """Heads beside one another in memory, reversed rows, every second element of a row."""
    q, k, v = operands((), 40, 3, 64, 64, dtype)
    q = np.ascontiguousarray(np.broadcast_to(q[:, None], (40, 2, 64))).transpose(1, 0, 2)
    k, v = (np.concatenate([each] * 20)[::-1] for each in (k, v))
    v = np.repeat(v, 2, axis=1)[:, ::2]
    check([q, k, v], dtype)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_threads_wait_for_one_another(engine, dtype):
    """More than 48 KiB of tiles, several blocks of keys: checked for races, and on both engines."""
    width = 192
    arrays = operands((1,), 70, 150, width, width, dtype)
    text = kernel_text(", causal=true")

    def simulate(*args, **options):
        return run(*args, **{**options, "engine": engine, "debug": engine == "numpy"})

    target = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False).with_simulator(simulate)
    compiled = compile_text(text, arrays, target)
    outputs = [np.full((1, 70, width), 7, DTYPES[dtype])]
    target.load(compiled.artifact)(arrays, outputs)
    bound = TOLERANCE[dtype]
    np.testing.assert_allclose(outputs[0].astype(np.float64), reference(text, arrays), atol=bound)
    assert compiled.artifact.metadata["launches"][0]["dynamic_shared_bytes"] > 48 * 1024


@pytest.mark.parametrize("causal", [False, True])
def test_memory_is_read_once_for_each_tile_of_queries(causal):
    """Sectors of queries and results once, of keys and values once for each 64 queries.

    With causal a block sees its own keys and those before; one tile more is fetched ahead.
    """
    arrays = operands((2,), 256, 256, 128, 128, "f16")
    counters, compiled = check(arrays, "f16", f", causal={str(causal).lower()}")
    (chosen,) = decisions(compiled, "schedule")
    assert (chosen.numbers["queries"], chosen.numbers["keys"]) == (64, 64)
    row, tiles = 128 * 2 // 32, 256 // 64
    values = sum(block + 1 if causal else tiles for block in range(tiles))
    keys = sum(min(block + 2, tiles) if causal else tiles for block in range(tiles))
    loads = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"]
    assert loads == 2 * row * (256 + 64 * (keys + values))
    assert counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 2 * row * 256
    assert counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    assert counters[CONFLICTS] == 0


def test_blocks_are_smaller_where_processors_would_be_idle():
    """128 blocks of 128 queries are two turns of an A100's 108 SMs; 256 of 64 are three halves."""
    for architecture, queries in (("sm_80", 64), ("sm_90", 128)):
        arrays = [np.zeros((1, 16, 1024, 128), np.float16)] * 3
        target = GpuTarget(ARCHITECTURES[architecture], with_sass=False)
        (chosen,) = decisions(compile_text(kernel_text(), arrays, target), "schedule")
        assert chosen.numbers["queries"] == queries


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@needs_ptxas
def test_nothing_is_spilled(architecture, dtype):
    for width in (64, 128, 256):
        arrays = operands((1,), 128, 192, width, width, dtype)
        target = GpuTarget(ARCHITECTURES[architecture], with_sass=False)
        resources = compile_text(kernel_text(", causal=true"), arrays, target).artifact.resources
        assert resources["spill_store_bytes"] == resources["spill_load_bytes"] == 0, width


@pytest.mark.parametrize(
    "lines",
    ["tile query 32, key 48", "tile query 48, key 16; pipeline key 1", "tile query 128, key 64"],
)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_a_schedule_says_how_large_the_tiles_are(lines, dtype):
    arrays = operands((2,), 70, 130, 32, 32, dtype)
    build = wia.compile(kernel_text()).k.build(*arrays, target="gpu:sm_80", schedule=lines)
    for line in lines.split("; "):
        assert f"{line};" in build.schedule
    found = build(*arrays).astype(np.float64)
    np.testing.assert_allclose(found, reference(kernel_text(), arrays), atol=TOLERANCE[dtype])


def test_the_default_prints_and_gives_the_same_code_when_pasted():
    arrays = [wia.spec((2, 256, 64), "f16")] * 3
    build = wia.compile(kernel_text()).k.build(*arrays, target="gpu:sm_80")
    assert "tile query 64, key 64;" in build.schedule and "pipeline key 2;" in build.schedule
    pasted = wia.compile(kernel_text() + build.schedule).k.build(*arrays, target="gpu:sm_80")
    assert pasted.assembly("ptx") == build.assembly("ptx")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("tile query 30", "threads take 16 at a time"),
        ("tile i 8", "of query, key, not of 'i'"),
        ("pipeline key 3", "3 stages"),
        ("pipeline query 2", "of key, not of 'query'"),
        ("use_tensor_cores", "does not apply"),
        ("tile query 1024", "takes 64 warps"),
        ("tile query 128, key 1024", "bytes of shared memory, sm_80 has"),
    ],
)
def test_what_no_block_takes_is_refused(lines, reason):
    arrays = [wia.spec((2, 2048, 128), "f16")] * 3
    with pytest.raises(wia.CompileError, match=reason):
        wia.compile(kernel_text()).k.build(*arrays, target="gpu:sm_80", schedule=lines)


def test_every_stage_agrees():
    arrays = operands((1,), 40, 90, 32, 24, "f16")
    build = wia.compile(kernel_text(", causal=true")).k.build(
        *arrays, target="gpu:sm_80", verify=True
    )
    checked = [
        each.candidate for s in build.stages for each in s.decisions if each.kind == "verify"
    ]
    assert {"loops", "schedule"} <= set(checked)
