"""Attention on a GPU: one launch whose blocks share tiles, on the simulator, against f64."""

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_programs import spec_of
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes.options import CompileOptions
from wia_compiler.passes.pipeline import compile_kernel
from wia_compiler.simulators.ptx import run

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
TOLERANCE = {"f64": 1e-13, "f32": 3e-6, "f16": 3e-3, "bf16": 2e-2}
"""Of the largest result; f16 and bf16 round weights and results to 11 and 8 bits."""
CONFLICTS = "shared_memory_bank_conflicts"


SMALL = "tile query 32, key 32"
"""Several blocks of both in small arrays; the code of small tiles is short, and soon compiled."""


def kernel_text(given="", mask=False, lines=""):
    """A kernel of one call; ``given`` are its attributes, ``lines`` its schedule."""
    parameter, argument = ("input m: tensor, ", ", m") if mask else ("", "")
    schedule = f"schedule k {{ {lines}; }}" if lines else ""
    return (
        f"kernel k(input q: tensor, input k: tensor, input v: tensor, {parameter}"
        f"output y: tensor) {{ y = attention(q, k, v{argument}{given}); }} {schedule}"
    )


def compiled_for(text, arrays, target):
    """The kernel of a text, with the schedule that stands there."""
    imported = import_program(parse(Source(text)))
    specs = [spec_of(name, array) for name, array in zip("qkvm", arrays, strict=False)]
    options = CompileOptions(schedules=imported.schedules)
    return compile_kernel(imported, "k", specs, target, options=options)


def operands(batch, queries, keys, width, values, dtype, heads=None):
    """Random queries, keys and values; ``heads`` is the batch of keys and values."""
    random = np.random.default_rng(queries + keys)
    shared = batch if heads is None else heads
    shapes = [(*batch, queries, width), (*shared, keys, width), (*shared, keys, values)]
    return [random.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


def on_simulator(text, arrays, architecture="sm_80", debug=False):
    """The result, the counters and what was compiled."""
    target = GpuTarget(ARCHITECTURES[architecture], with_sass=False).with_simulator(run)
    compiled = compiled_for(text, arrays, target)
    outputs = [np.full(each.spec.shape, 7, each.spec.dtype.numpy) for each in compiled.outputs]
    counters = target.load(compiled.artifact)(arrays, outputs)
    return outputs[0], dict(counters), compiled


def reference(text, arrays):
    """The result in f64."""
    wide = [each if each.dtype == bool else each.astype(np.float64) for each in arrays]
    return wia.reference(wia.compile(text).k, *wide)


def check(arrays, dtype, given="", architecture="sm_80", lines=SMALL):
    """One launch without a workspace, whose result is that of the reference."""
    text = kernel_text(given, len(arrays) > 3, lines)
    found, counters, compiled = on_simulator(text, arrays, architecture)
    wanted = reference(kernel_text(given, len(arrays) > 3), arrays)
    largest = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
    np.testing.assert_allclose(
        found.astype(np.float64), wanted, rtol=0, atol=TOLERANCE[dtype] * largest
    )
    if wanted.size and arrays[1].size and dtype != "f64":
        assert len(compiled.artifact.metadata["launches"]) == 1
        assert compiled.artifact.metadata["workspace_bytes"] == []
    return counters, compiled, found


def causal(is_causal):
    return f", causal={str(is_causal).lower()}"


SIZES = [(1, 1, 1, 1), (3, 17, 1, 3), (17, 3, 33, 8), (127, 65, 40, 24), (64, 128, 32, 64)]
BOTH = [(size, is_causal) for size in SIZES[2:4] for is_causal in (False, True)]
ONCE = [(SIZES[0], True), (SIZES[1], False), (SIZES[4], True)]


@pytest.mark.parametrize(("sizes", "is_causal"), [*BOTH, *ONCE])
def test_sums_of_threads(sizes, is_causal):
    check(operands((2,), *sizes, dtype="f32"), "f32", causal(is_causal))


@pytest.mark.parametrize(
    ("sizes", "is_causal", "dtype"),
    [*((*each, "f16") for each in (*BOTH, *ONCE)), *((*each, "bf16") for each in BOTH[1:3])],
)
def test_tensor_cores(sizes, is_causal, dtype):
    counters, compiled, _ = check(operands((2,), *sizes, dtype=dtype), dtype, causal(is_causal))
    assert "mma.sync.aligned.m16n8k16" in compiled.artifact.assembly["ptx"]
    assert counters[CONFLICTS] == 0


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_nothing_is_attended_to_or_by_nothing(dtype):
    for sizes in ((0, 5, 4, 4), (5, 0, 4, 4)):
        check(operands((2,), *sizes, dtype=dtype), dtype, lines="")


@pytest.mark.parametrize("width", [17, 33, 40, 80, 96, 128, 192, 256])
def test_any_width_of_a_head(width):
    """Rows of every length in shared memory, of an odd number of elements in memory, too."""
    values = width - 3 if width % 64 else width
    arrays = operands((1,), 20, 40, width, values, "f16")
    counters, _, _ = check(arrays, "f16", causal(True), lines="tile query 16, key 16")
    assert counters[CONFLICTS] == 0
    if width in (33, 80, 256):
        arrays = operands((1,), 20, 40, width, values, "f32")
        counters, _, _ = check(arrays, "f32", lines="tile query 16, key 16")
        assert counters[CONFLICTS] == 0


def test_blocks_of_causal_rows_begin_with_those_that_see_most_keys():
    """And walk no block behind the diagonal: of 8 × 8 blocks of tiles 36 are multiplied."""
    arrays = operands((), 256, 256, 32, 32, "f16")
    products = {}
    for is_causal in (False, True):
        counters, compiled, _ = check(arrays, "f16", causal(is_causal))
        products[is_causal] = counters["ptx_inst_pipe_tensor"]
    assert products[True] * 64 == products[False] * 36
    (scheduled,) = (each.text for each in compiled.trace.stages if each.name == "schedule")
    assert "padded %q[%i0 * -1 + i + 224, e]" in scheduled


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_turing(dtype):
    """f16 in pieces of m16n8k8; bf16 widened, since there are no units for it."""
    _, compiled, _ = check(operands((2,), 40, 70, 40, 64, dtype), dtype, architecture="sm_75")
    ptx = compiled.artifact.assembly["ptx"]
    assert ("mma.sync.aligned.m16n8k8" in ptx) == (dtype == "f16")
    assert "cp.async" not in ptx


def test_f64_is_written_out_and_a_decision_says_why():
    _, compiled, _ = check(operands((2,), 20, 30, 8, 8, "f64"), "f64", lines="")
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
    ("kind", "shape", "dtype"),
    [
        ("bool", (40, 70), "f16"),
        ("own", (2, 1, 40, 70), "bf16"),
        ("bool", (70,), "f32"),
        ("own", (1, 70), "f16"),
        ("own", (1, 1), "f32"),
        ("bool", (3, 40, 1), "f32"),
    ],
)
def test_masks_stretch(dtype, kind, shape):
    arrays = operands((2, 3), 40, 70, 32, 16, dtype)
    random = np.random.default_rng(1)
    mask = random.random(shape) < 0.7
    if kind == "own":
        mask = random.uniform(-3, 3, shape).astype(DTYPES[dtype])
    check([*arrays, mask], dtype)


@pytest.mark.parametrize(("dtype", "is_causal"), [("f32", False), ("f16", True), ("bf16", False)])
def test_rows_that_see_nothing_are_zero(dtype, is_causal):
    arrays = operands((), 40, 70, 16, 16, dtype)
    mask = np.random.default_rng(1).random((40, 70)) < 0.3
    mask[[0, 7, 39]] = False
    added = np.where(mask, 0, -np.inf).astype(DTYPES[dtype])
    for each in (mask, added):
        _, _, found = check([*arrays, each], dtype, causal(is_causal))
        assert not found[[0, 7, 39]].astype(np.float64).any()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
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


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_threads_wait_for_one_another_and_engines_agree(dtype):
    """More than 48 KiB of tiles, several blocks of keys: checked for races, and on both engines."""
    width = 192
    arrays = operands((1,), 70, 150, width, width, dtype)
    text = kernel_text(causal(True))
    found = []
    for engine in ("numpy", "compiled"):

        def simulate(*args, engine=engine, **options):
            return run(*args, **{**options, "engine": engine, "debug": engine == "numpy"})

        target = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False).with_simulator(simulate)
        if not found:
            compiled = compiled_for(text, arrays, target)
        found.append(np.full((1, 70, width), 7, DTYPES[dtype]))
        target.load(compiled.artifact)(arrays, [found[-1]])
    bound = TOLERANCE[dtype]
    np.testing.assert_allclose(found[0].astype(np.float64), reference(text, arrays), atol=bound)
    np.testing.assert_allclose(*(each.astype(np.float64) for each in found), atol=bound / 10)
    assert compiled.artifact.metadata["launches"][0]["dynamic_shared_bytes"] > 48 * 1024


@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_is_read_once_for_each_tile_of_queries(is_causal):
    """Sectors of queries and results once, of keys and values once for each 64 queries.

    With causal a block sees its own keys and those before.
    """
    arrays = operands((2,), 256, 256, 128, 128, "f16")
    counters, compiled, _ = check(arrays, "f16", causal(is_causal), lines="")
    (chosen,) = decisions(compiled, "schedule")
    assert (chosen.numbers["queries"], chosen.numbers["keys"]) == (64, 64)
    row, tiles = 128 * 2 // 32, 256 // 64
    walked = sum(block + 1 if is_causal else tiles for block in range(tiles))
    loads = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"]
    assert loads == 2 * row * (256 + 64 * 2 * walked)
    assert counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 2 * row * 256
    assert counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    assert counters[CONFLICTS] == 0


def test_blocks_are_smaller_where_processors_would_be_idle():
    """128 blocks of 128 queries are two turns of an A100's 108 SMs; 256 of 64 are three halves."""
    for architecture, queries in (("sm_80", 64), ("sm_90", 128)):
        arrays = [np.zeros((1, 16, 1024, 128), np.float16)] * 3
        target = GpuTarget(ARCHITECTURES[architecture], with_sass=False)
        (chosen,) = decisions(compiled_for(kernel_text(), arrays, target), "schedule")
        assert chosen.numbers["queries"] == queries


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
@needs_ptxas
def test_nothing_is_spilled(architecture):
    for dtype, width in (("f16", 64), ("f16", 128), ("f16", 256), ("f32", 64), ("f32", 256)):
        arrays = operands((1,), 128, 192, width, width, dtype)
        target = GpuTarget(ARCHITECTURES[architecture], with_sass=False)
        resources = compiled_for(kernel_text(causal(True)), arrays, target).artifact.resources
        assert resources["spill_store_bytes"] == resources["spill_load_bytes"] == 0, (dtype, width)


@pytest.mark.parametrize(
    ("lines", "dtype"),
    [
        ("tile query 32, key 48", "f16"),
        ("tile query 48, key 16; pipeline key 1", "f32"),
        ("tile query 48, key 16; pipeline key 1", "f16"),
        ("tile query 128, key 64", "f16"),
    ],
)
def test_a_schedule_says_how_large_the_tiles_are(lines, dtype):
    arrays = operands((2,), 70, 130, 32, 32, dtype)
    _, compiled, _ = check(arrays, dtype, lines=lines)
    (chosen,) = decisions(compiled, "schedule")
    assert all(f"{line}" in str(chosen.numbers["schedule"]) for line in lines.split("; "))


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
