"""Attention on sm_90a: warpgroups with roles, products by wgmma, on the PTX simulator."""

import re
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_programs import compile_text
from unit.gpu_tools import needs_ptxas
from unit.test_gpu_attention import DTYPES, TOLERANCE, kernel_text, operands, reference
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.launch import LaunchPlan
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.backends.gpu.tools import require_tool
from wia_compiler.simulators.ptx import run

ROW = ARCHITECTURES["sm_90a"]


def compiled_for(text, arrays, sms=ROW.sm_count):
    return compile_text(text, arrays, GpuTarget(replace(ROW, sm_count=sms), with_sass=False))


def chosen(compiled):
    """The decision about the one nest."""
    decisions = [each for s in compiled.trace.stages for each in s.decisions]
    (found,) = [each for each in decisions if each.kind == "schedule"]
    return found


def launched(compiled, arrays, ptx=None, **options):
    """What a text (the compiled one) leaves in the result, and the launch."""
    (launch,) = LaunchPlan.from_metadata(compiled.artifact.metadata).launches
    spec = compiled.outputs[0].spec
    held = [*arrays, np.full(spec.shape, 7, spec.dtype.numpy)]
    maps = [each.arguments(held[each.buffer]) for each in launch.tensor_maps]
    args = [*(held[number] for number in launch.buffers), *maps]
    done = run(
        ptx or compiled.artifact.assembly["ptx"], launch.entry, launch.blocks, launch.threads, args,
        shared_bytes=launch.dynamic_shared_bytes, budget=10**7, **options,
    )  # fmt: skip
    return held[-1], done


def check(found, text, arrays, dtype):
    wanted = reference(text, arrays)
    largest = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
    atol = TOLERANCE[dtype] * largest
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=atol)


CASES = {
    # One block of keys, which ends inside of its tile.
    "short": (((1,), 65, 17, 64, 64, "bf16"), "", 132),
    # A last block that is not whole, and more tiles than SMs: stages go on from tile to tile.
    "tail": (((3,), 64, 208, 72, 64, "f16"), "", 1),
    # Two panels of a head's row; the last block of queries has few.
    "causal": (((), 200, 272, 128, 64, "f16"), ", causal=true", 132),
    # Queries behind all keys, whose diagonal lies past the last block.
    "long": (((), 320, 144, 64, 96, "bf16"), ", causal=true", 132),
}


@pytest.mark.parametrize("case", CASES)
def test_results_and_checks(case):
    """Every row is the reference's, and the simulator finds no race and no missing wait."""
    sizes, given, sms = CASES[case]
    arrays, text, dtype = operands(*sizes), kernel_text(given), sizes[-1]
    compiled = compiled_for(text, arrays, sms)
    ptx = compiled.artifact.assembly["ptx"]
    assert "wgmma" in ptx and "mma.sync" not in ptx, chosen(compiled).reason
    found, done = launched(compiled, arrays, engine="numpy", debug=True)
    assert not done.findings
    check(found, text, arrays, dtype)
    # Shared memory is read by wgmma and written by tensor copies alone: no bank conflicts.
    assert not re.search(r"(ld|st|ldmatrix)\S*\.shared", ptx)


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_masks_shared_heads_and_rows_that_see_nothing(kind):
    arrays = operands((2, 2), 70, 150, 64, 64, "f16", heads=(2, 1))
    mask = np.random.default_rng(1).random((70, 150)) < 0.3
    mask[[0, 7, 69]] = False
    if kind == "added":
        mask = np.where(mask, 0.5, -np.inf).astype(np.float16)
    text = kernel_text(", enable_gqa=true", mask=True)
    compiled = compiled_for(text, [*arrays, mask])
    assert "wgmma" in compiled.artifact.assembly["ptx"]
    found, _ = launched(compiled, [*arrays, mask], engine="numpy")
    check(found, text, [*arrays, mask], "f16")
    assert not found[..., [0, 7, 69], :].astype(np.float64).any()


@cache
def plain():
    """A kernel of two blocks of keys and its arrays."""
    arrays = operands((), 64, 160, 64, 64, "f16")
    return compiled_for(kernel_text(), arrays), arrays


def test_both_engines_agree():
    compiled, arrays = plain()
    slow, _ = launched(compiled, arrays, engine="numpy")
    fast, _ = launched(compiled, arrays, engine="compiled")
    np.testing.assert_array_equal(slow, fast)


def test_special_numbers_go_where_the_reference_puts_them():
    compiled, arrays = plain()
    arrays = [each.copy() for each in arrays]
    for array, places in zip(arrays, ([3], [5, 100], [7, 140]), strict=True):
        array[places, 1] = [np.nan, np.inf][: len(places)]
    found, _ = launched(compiled, arrays, engine="numpy")
    check(found, kernel_text(), arrays, "f16")


def test_products_run_beside_the_arithmetic_of_weights():
    """In the loop both products are started before the first of them is waited for."""
    ptx = plain()[0].artifact.assembly["ptx"]
    order = re.findall(r"wgmma\.(commit_group|wait_group\.sync\.aligned \d)", ptx)
    waits = [each.replace("wait_group.sync.aligned ", "wait ") for each in order]
    assert waits == [
        *("commit_group", "wait 0"),
        *("commit_group", "commit_group", "wait 1", "wait 0"),
        *("commit_group", "wait 0"),
    ]


@pytest.mark.parametrize("what", ["full", "empty", "product", "arrival"])
def test_what_is_left_out_is_found(what):
    """The text without one of its waits has a fault that the checks see."""
    compiled, arrays = plain()
    ptx = compiled.artifact.assembly["ptx"]
    wait = r"mbarrier\.try_wait\.parity\S* (%p\d+), \[[^\]]*\], \S+;"
    patterns = {
        "full": (wait, r"setp.eq.u32 \1, 0, 0;", 1),
        "empty": (r"mbarrier\.arrive\.shared\S* \S+, \[[^\]]*\], \S+;", "", -1),
        "product": (r"wgmma\.wait_group\.sync\.aligned 1;", "", 0),
        "arrival": (r"mbarrier\.arrive\.expect_tx\S* \S+, \[[^\]]*\], \S+;", "", 0),
    }
    pattern, put, number = patterns[what]
    found = list(re.finditer(pattern, ptx))[number]
    cut = ptx[: found.start()] + found.expand(put) + ptx[found.end() :]
    try:
        result, done = launched(compiled, arrays, cut, engine="numpy", debug=True)
    except wia.ptx.PtxFault:
        return
    # The last tiles of a launch may stay full: nothing waits for them any more.
    assert done.findings or what == "empty", result


@needs_ptxas
@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((8, 32, 4096, 64), ", causal=true"),
        ((200, 300, 128), ", causal=true"),
        ((1, 16, 1000, 256), ""),
    ],
)
def test_ptxas_keeps_all_in_registers(shape, given, tmp_path):
    """No spills, and no word of products that wait for one another (C7508, C7510 … C7517)."""
    compiled = compiled_for(kernel_text(given), [np.zeros(shape, np.float16)] * 3)
    source = tmp_path / "kernel.ptx"
    source.write_text(compiled.artifact.assembly["ptx"])
    command = [require_tool("ptxas"), "-arch=sm_90a", "-v", source, "-o", tmp_path / "cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "C75" not in said and "wgmma" in compiled.artifact.assembly["ptx"]
    assert " 0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.parametrize(
    ("sizes", "queries", "consumers"),
    [((1, 8, 1024), 64, 1), ((1, 16, 1024), 128, 2), ((8, 32, 4096), 192, 3)],
)
def test_blocks_fill_the_processors(sizes, queries, consumers):
    """Fewer rows a block where SMs would be idle, three consumers where there are many."""
    compiled = compiled_for(kernel_text(), [np.zeros((*sizes, 64), np.float16)] * 3)
    numbers = chosen(compiled).numbers
    assert (numbers["queries"], numbers["consumers"]) == (queries, consumers)


VIEW = np.zeros((2, 64, 128), np.float16)[..., ::2]


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ([np.zeros((2, 64, 64), np.float16), VIEW, VIEW], "the key is a view"),
        ([np.zeros((2, 64, 68), np.float16)] * 3, "136 bytes apart, no multiple of 16"),
        ([np.zeros((2, 64, 40), np.float16)] * 3, "a head of 40 fills no row of 128 bytes"),
        ([np.zeros((2, 64, 64), np.float32)] * 3, "warpgroups do not multiply f32"),
    ],
)
def test_what_is_left_to_other_kernels(arrays, why):
    compiled = compiled_for(kernel_text(), arrays)
    assert "wgmma" not in compiled.artifact.assembly["ptx"]
    assert f"not by wgmma: {why}" in chosen(compiled).reason or why in chosen(compiled).reason


def build(schedule):
    specs = [wia.spec((2, 256, 64), "bf16")] * 3
    return wia.compile(kernel_text()).k.build(*specs, target="gpu:sm_90a", schedule=schedule)


def test_what_was_chosen_can_be_pasted_and_edited():
    default = build("default")
    assert "tile query 64, key 128;" in default.schedule and "pipeline key 2;" in default.schedule
    assert build(default.schedule).assembly("ptx") == default.assembly("ptx")
    edited = build("tile query 128, key 48; pipeline key 3").assembly("ptx")
    assert "m64n48k16" in edited and "m64n64k16" in edited
    assert "mma.sync" in build("pipeline key 1").assembly("ptx")
    with pytest.raises(wia.CompileError, match="5 stages"):
        build("pipeline key 5")


def test_every_stage_agrees():
    arrays = operands((1,), 70, 90, 64, 64, "f16")
    made = wia.compile(kernel_text(", causal=true")).k.build(
        *arrays, target="gpu:sm_90a", verify=True
    )
    checked = [e.candidate for s in made.stages for e in s.decisions if e.kind == "verify"]
    assert {"loops", "schedule"} <= set(checked)
    assert DTYPES["f16"] is np.float16 and "wgmma" in made.assembly("ptx")
