"""Products on sm_90a: tensor maps, mbarriers and wgmma, on the PTX simulator."""

import re
import subprocess
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_programs import compile_text
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.launch import LaunchPlan
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.backends.gpu.tools import require_tool
from wia_compiler.simulators.ptx import run

ROW = ARCHITECTURES["sm_90a"]
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
ORDERS = {
    "A @ B": ("mk", "kn"),
    "A @ transpose(B)": ("mk", "nk"),
    "transpose(A) @ B": ("km", "kn"),
    "transpose(A) @ transpose(B)": ("km", "nk"),
}


def text(expression: str, inputs: str = "A B") -> str:
    parameters = ", ".join(f"input {name}: tensor" for name in inputs.split())
    return f"kernel mm({parameters}, output C: tensor) {{ C = {expression}; }}"


def random(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def simulated(program, arrays, *, sms=ROW.sm_count):
    """The result, and what was compiled, on a GPU of so many SMs."""
    target = GpuTarget(replace(ROW, sm_count=sms), with_sass=False).with_simulator(run)
    compiled = compile_text(program, arrays, target)
    outputs = [np.zeros(each.spec.shape, each.spec.dtype.numpy) for each in compiled.outputs]
    target.load(compiled.artifact)(arrays, outputs)
    return outputs[0], compiled


def check(found, expected, depth):
    """Sums are in f32; what is left is the rounding of the result."""
    step = 2**-8 if found.dtype == ml_dtypes.bfloat16 else 2**-11
    bound = step * np.abs(expected) + 1e-6 * depth
    assert (np.abs(found.astype(np.float64) - expected) <= bound).all()


def wide(array):
    return array.astype(np.float64)


def reason_of(compiled):
    (decision,) = [each for each in compiled.trace.decisions if each.kind == "schedule"]
    return decision.reason


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("expression", ORDERS)
@pytest.mark.parametrize("sizes", [(128, 128, 128), (200, 136, 328), (64, 72, 64)])
def test_orders_and_edges(expression, dtype, sizes):
    """Both operands either way round; 136 and 328 leave a part of each tile outside."""
    extent = dict(zip("mnk", sizes, strict=True))
    a, b = (
        random([extent[axis] for axis in axes], dtype, seed)
        for seed, axes in enumerate(ORDERS[expression])
    )
    found, compiled = simulated(text(expression), [a, b])
    transposed = [int("transpose(A)" in expression), int("transpose(B)" not in expression)]
    assert f"1, 1, 1, {transposed[0]}, {transposed[1]};" in compiled.artifact.assembly["ptx"]
    left = wide(a).T if transposed[0] else wide(a)
    right = wide(b) if transposed[1] else wide(b).T
    check(found, left @ right, sizes[2])


EPILOGUES = {
    "relu(A @ B + bias)": lambda p, bias, r: np.maximum(p + bias, 0),
    "gelu(A @ B)": lambda p, bias, r: (
        p * (1 + np.vectorize(__import__("math").erf)(p / 2**0.5)) / 2
    ),
    "A @ B * bias + R": lambda p, bias, r: p * bias + r,
}


@pytest.mark.parametrize("expression", EPILOGUES)
@pytest.mark.parametrize("sizes", [(128, 256, 128), (72, 200, 192)])
def test_epilogues(expression, sizes):
    m, n, k = sizes
    a, b = random((m, k), "f16"), random((k, n), "f16", 1)
    more = {"bias": random((n,), "f16", 2), "R": random((m, n), "f16", 3)}
    names = ["A", "B", *(name for name in more if re.search(rf"\b{name}\b", expression))]
    found, compiled = simulated(
        text(expression, " ".join(names)), [a, b, *(more[name] for name in names[2:])]
    )
    assert "wgmma" in compiled.artifact.assembly["ptx"]
    product = (wide(a) @ wide(b)).astype(np.float16).astype(np.float64)
    expected = EPILOGUES[expression](product, wide(more["bias"]), wide(more["R"]))
    assert np.allclose(wide(found), expected, rtol=4e-3, atol=2e-2)


def test_batches_and_results_of_f32():
    a, b = random((3, 96, 128), "bf16"), random((3, 128, 80), "bf16", 1)
    program = text("cast(A @ B, f32) * 2.0")
    found, compiled = simulated(program, [a, b])
    assert "wgmma" in compiled.artifact.assembly["ptx"] and found.dtype == np.float32
    rounded = (wide(a) @ wide(b)).astype(ml_dtypes.bfloat16)
    assert np.allclose(found, 2 * wide(rounded), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("sms", [1, 3, 5])
def test_blocks_that_take_several_tiles(sms):
    """Stages and phases go on from tile to tile; 11 rows of tiles are a group of 8 and one of 3."""
    a, b = random((11 * 64 - 4, 200), "f16"), random((200, 144), "f16", 1)
    found, compiled = simulated(text("A @ B"), [a, b], sms=sms)
    (launch,) = LaunchPlan.from_metadata(compiled.artifact.metadata).launches
    assert launch.blocks == sms
    check(found, wide(a) @ wide(b), 200)


def test_integers():
    """Sums of 8-bit products are exact in 32 bits; what is kept of them wraps around."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((100, 192), (80, 192)))
    found, compiled = simulated(text("A @ transpose(B)"), [a, b])
    exact = a.astype(np.int64) @ b.T.astype(np.int64)
    np.testing.assert_array_equal(found, exact.astype(np.int8))
    assert "k32.s32.s8.s8" in compiled.artifact.assembly["ptx"], reason_of(compiled)


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (random((128, 129), "f16"), random((129, 128), "f16"), "rows of A are 258 bytes apart"),
        (random((128, 128), "f16"), random((128, 65), "f16"), "rows of B are 130 bytes apart"),
        (random((128, 256), "f16")[:, ::2], random((128, 128), "f16"), "A is a view"),
        (random((17, 128), "f16"), random((128, 128), "f16"), "a side of 17 fills no tile of 64"),
        (np.ones((128, 128), np.float32), np.ones((128, 128), np.float32), "f16, bf16 or i8"),
    ],
)
def test_what_is_left_to_other_kernels(a, b, why):
    """What a tensor map or wgmma cannot take runs all the same, and the decision says why."""
    found, compiled = simulated(text("A @ B"), [a, b])
    assert "wgmma" not in compiled.artifact.assembly["ptx"]
    assert f"not by wgmma: {why}" in reason_of(compiled) or why in reason_of(compiled)
    check(found.astype(np.float16), wide(a) @ wide(b), 128)


def checked(ptx, compiled, arrays):
    """What the checks of the simulator say about a text."""
    plan = LaunchPlan.from_metadata(compiled.artifact.metadata)
    (launch,) = plan.launches
    held = [*arrays, np.zeros(compiled.outputs[0].spec.shape, arrays[0].dtype)]
    maps = [each.arguments(held[each.buffer]) for each in launch.tensor_maps]
    args = [*(held[number] for number in launch.buffers), *maps]
    return run(
        ptx, launch.entry, launch.blocks, launch.threads, args,
        shared_bytes=launch.dynamic_shared_bytes, debug=True, budget=10**7,
    ).findings  # fmt: skip


def test_checks_find_nothing_and_cut_waits():
    """The text as it is has no fault; without one of its waits it has, and the checks see it."""
    arrays = [random((136, 520), "f16"), random((520, 72), "f16", 1)]
    _, compiled = simulated(text("A @ B"), arrays, sms=2)
    ptx = compiled.artifact.assembly["ptx"]
    assert not checked(ptx, compiled, arrays)
    waits = list(re.finditer(r"mbarrier\.try_wait\.parity\S* (%p\d+), \[[^\]]*\], \S+;", ptx))
    # For a full stage, and for an empty one.
    expected = ("to which the cp.async.bulk of", "1 more arrivals than the mbarrier waits for")
    for wait, told in zip(waits, expected, strict=True):
        passed = f"setp.eq.u32 {wait[1]}, 0, 0;"
        cut = ptx[: wait.start()] + passed + ptx[wait.end() :]
        with pytest.raises((AssertionError, wia.ptx.PtxFault)) as caught:
            assert not (found := checked(cut, compiled, arrays)), "\n".join(map(str, found))
        assert told in str(caught.value)


@needs_ptxas
@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (1000, 1000, 1000), (128, 4096, 512)])
@pytest.mark.parametrize("expression", ["A @ B", "relu(A @ transpose(B) + bias)"])
def test_ptxas_keeps_sums_in_registers(sizes, expression, tmp_path):
    """No spills, and no word of products that wait for one another (C7508, C7510 … C7517)."""
    m, n, k = sizes
    kernel = wia.compile(text(expression, "A B bias" if "bias" in expression else "A B")).mm
    shapes = [(m, k), (n, k) if "transpose" in expression else (k, n), (n,)]
    count = 3 if "bias" in expression else 2
    build = kernel.build(*(wia.spec(s, "bf16") for s in shapes[:count]), target="gpu:sm_90a")
    assert build.resources["spill_store_bytes"] == build.resources["stack_bytes"] == 0
    source = tmp_path / "kernel.ptx"
    source.write_text(build.assembly("ptx"))
    command = [require_tool("ptxas"), "-arch=sm_90a", "-v", source, "-o", tmp_path / "cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "C75" not in said and "wgmma" in build.assembly("ptx")


def test_other_architectures_have_no_wgmma():
    arrays = [random((128, 128), "f16"), random((128, 128), "f16")]
    target = GpuTarget(ARCHITECTURES["sm_90"], with_sass=False)
    assert "wgmma" not in compile_text(text("A @ B"), arrays, target).artifact.assembly["ptx"]


def user_build(schedule, m=256, n=512, k=512):
    kernel = wia.compile(text("A @ B")).mm
    specs = [wia.spec((m, k), "f16"), wia.spec((k, n), "f16")]
    return kernel.build(*specs, target="gpu:sm_90a", schedule=schedule)


def test_what_was_chosen_can_be_pasted():
    chosen = user_build("default")
    assert "pipeline k" in str(chosen.schedule) and "use_tensor_cores" in str(chosen.schedule)
    pasted = user_build(chosen.schedule)
    assert pasted.assembly("ptx") == chosen.assembly("ptx")


@pytest.mark.parametrize(
    ("schedule", "wgmma", "stages"),
    [
        ("tile i 64, j 256, k 64; pipeline k 3; use_tensor_cores", "m64n256k16", 3),
        ("tile j 64; use_tensor_cores", "m64n64k16", None),
        ("tile i 64, j 64, k 32; tile i 32, j 32 @warp; use_tensor_cores", None, None),
        ("tile i 32, j 64; use_tensor_cores", None, None),
    ],
)
def test_schedules_of_a_user(schedule, wgmma, stages):
    """Tiles of wgmma are wgmma's, a tile of warps or another size is mma.sync's."""
    ptx = user_build(schedule).assembly("ptx")
    found = re.search(r"wgmma\.mma_async\.sync\.aligned\.(\w+)", ptx)
    assert (found[1] if found else None) == wgmma
    assert wgmma or "mma.sync" in ptx
    assert stages is None or f"barriers[{16 * stages}]" in ptx


def test_more_stages_than_shared_memory_holds():
    with pytest.raises(wia.CompileError) as caught:
        user_build("tile i 128, j 256; pipeline k 5; use_tensor_cores")
    assert "5 stages of 49152 bytes: a block's shared memory holds 2 to 4" in str(caught.value)
    assert "pipeline k 4" in str(caught.value)
