"""Attention of few queries on a GPU: parts of the keys for all SMs, and a launch to join them."""

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from unit.test_gpu_attention import (
    CONFLICTS,
    DTYPES,
    TOLERANCE,
    causal,
    compiled_for,
    decisions,
    kernel_text,
    operands,
    reference,
)
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.simulators.ptx import run

GROUPED = ", enable_gqa=true"


def on_both_engines(compiled, arrays, shape, dtype):
    """The result and the counters of the compiled engine; numpy's, with all checks, agrees."""
    found = []
    for engine in ("numpy", "compiled"):

        def simulate(*args, engine=engine, **options):
            return run(*args, **{**options, "engine": engine, "debug": engine == "numpy"})

        target = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False).with_simulator(simulate)
        found.append(np.full(shape, 7, DTYPES[dtype]))
        counters = target.load(compiled.artifact)(arrays, [found[-1]])
    first, second = (each.astype(np.float64) for each in found)
    np.testing.assert_allclose(first, second, rtol=0, atol=TOLERANCE[dtype] / 10)
    return second, dict(counters)


@pytest.mark.parametrize(("dtype", "values"), [("f16", 40), ("f32", 33), ("bf16", 64)])
def test_parts_are_joined_and_heads_that_share_keys_walk_them_once(dtype, values):
    """Two queries of each of three heads are six rows; the last part has one key more than none."""
    arrays = operands((1, 6), 2, 385, 40, values, dtype, heads=(1, 2))
    target = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False)
    lines = "tile query 16, key 32; pipeline key 2; parallel key 128"
    compiled = compiled_for(kernel_text(GROUPED, lines=lines), arrays, target)
    found, counters = on_both_engines(compiled, arrays, (1, 6, 2, values), dtype)
    wanted = reference(kernel_text(GROUPED), arrays)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype])
    assert len(compiled.artifact.metadata["launches"]) == 2
    assert counters[CONFLICTS] == 0
    (walked, joined) = decisions(compiled, "schedule")
    assert lines == walked.numbers["schedule"] and joined.numbers["parts"] == 4


def test_few_queries_are_parts_for_all_processors_by_themselves():
    """As many blocks as 108 SMs take; each key and value is read once. One query sees one key."""
    arrays = operands((8,), 1, 2048, 64, 64, "f16")
    target = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False).with_simulator(run)
    compiled = compiled_for(kernel_text(), arrays, target)
    found = np.zeros((8, 1, 64), np.float16)
    counters = target.load(compiled.artifact)(arrays, [found])
    np.testing.assert_allclose(found, reference(kernel_text(), arrays), atol=TOLERANCE["f16"])
    walked = decisions(compiled, "schedule")[0]
    parts = -(-2048 // walked.numbers["keys of a part"])
    assert 108 <= 8 * parts <= 4 * 108
    row = 64 * 2 // 32
    loads = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"]
    assert loads == 8 * row * (2 * 2048 + parts)
    alone = compiled_for(kernel_text(causal(True)), arrays, target)
    assert len(alone.artifact.metadata["launches"]) == 1


def test_the_default_prints_and_gives_the_same_code_when_pasted():
    arrays = [wia.spec((8, 1, 64), "f16"), *[wia.spec((8, 2048, 64), "f16")] * 2]
    build = wia.compile(kernel_text()).k.build(*arrays, target="gpu:sm_80")
    assert "parallel key " in build.schedule
    pasted = wia.compile(kernel_text() + build.schedule).k.build(*arrays, target="gpu:sm_80")
    assert pasted.assembly("ptx") == build.assembly("ptx")
    whole = kernel_text(lines="parallel key 4096")
    ptx = wia.compile(whole).k.build(*arrays, target="gpu:sm_80").assembly("ptx")
    assert ptx.count(".entry") == 1


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("schedule k { parallel key 100; }", "parts of 100 keys: a block walks 64 at a time"),
        ("schedule k { parallel query 64; }", "of key, not of 'query'"),
        ("schedule k { parallel key; }", "key"),
        ("schedule k.k_attention_join { parallel key 64; }", "no schedule of its own"),
    ],
)
def test_what_no_block_takes_is_refused(lines, reason):
    arrays = [wia.spec((8, 1, 64), "f16"), *[wia.spec((8, 2048, 64), "f16")] * 2]
    with pytest.raises(wia.CompileError, match=reason):
        wia.compile(kernel_text() + lines).k.build(*arrays, target="gpu:sm_80")


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"])
@needs_ptxas
def test_nothing_is_spilled(architecture):
    for dtype, width in (("f16", 128), ("f16", 256), ("f32", 128)):
        arrays = operands((1, 8), 1, 4096, width, width, dtype, heads=(1, 2))
        target = GpuTarget(ARCHITECTURES[architecture], with_sass=False)
        artifact = compiled_for(kernel_text(GROUPED), arrays, target).artifact
        assert len(artifact.metadata["launches"]) == 2
        spilled = artifact.resources["spill_store_bytes"], artifact.resources["spill_load_bytes"]
        assert spilled == (0, 0), (dtype, width)
