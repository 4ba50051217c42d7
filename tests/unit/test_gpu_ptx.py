"""PTX of every kernel: accepted by ptxas, no spills, the instructions that its schedule means."""

import re

import ml_dtypes
import numpy as np
import pytest
import wia_kernels
from unit.gpu_programs import build
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu import emit, machine_code, tools
from wia_compiler.backends.gpu.target import make_target, targets
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.target import Artifact

DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i32": np.int32,
}
MATMUL = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"


def cases():
    """Each kernel at an odd size: in every dtype for one architecture, in f32 for others too.

    At working sizes ``test_gpu_gate`` assembles every dtype, for several architectures.
    """
    found = []
    for name in wia_kernels.names():
        kernel = wia_kernels.get(name)
        dtypes = [dtype for dtype in DTYPES if dtype in kernel.dtypes]
        wanted = [*((dtype, "sm_90") for dtype in dtypes), ("f32", "sm_80"), ("f32", "sm_120")]
        for dtype, architecture in wanted:
            if dtype in dtypes:
                case = (name, kernel.shapes[1], dtype, architecture)
                found.append(pytest.param(*case, id=f"{name}-{dtype}-{architecture}"))
    return found


def arrays(shapes, dtype="f32"):
    """Arrays of which only shape and dtype matter."""
    return [np.broadcast_to(np.zeros((), DTYPES[dtype]), shape).copy() for shape in shapes]


@needs_ptxas
@pytest.mark.parametrize("name,shapes,dtype,architecture", cases())
def test_accepted_without_spills(name, shapes, dtype, architecture):
    compiled = build(wia_kernels.get(name).text, arrays(shapes, dtype), architecture)
    resources = compiled.artifact.resources
    assert resources["spill_store_bytes"] == resources["spill_load_bytes"] == 0
    assert resources["stack_bytes"] == 0
    assert resources["warnings"] == []
    assert 0 < resources["occupancy"] <= 1 and resources["ctas_per_sm"] >= 1
    ptx = compiled.artifact.assembly["ptx"]
    assert f".target {architecture}" in ptx
    assert ("ld.global" in ptx or "cp.async" in ptx) and "st.global" in ptx
    assert ".local" not in ptx


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_75", "sm_86", "sm_89", "sm_100"])
@pytest.mark.parametrize("name", ["vector_add", "softmax", "matmul_bias_relu", "conv_bias_relu"])
def test_the_other_architectures(name, architecture):
    """In a type that some have no instructions for; ``test_gpu_gate`` has the others."""
    kernel = wia_kernels.get(name)
    compiled = build(kernel.text, arrays(kernel.shapes[1], "bf16"), architecture)
    assert compiled.artifact.resources["spill_store_bytes"] == 0
    assert compiled.artifact.resources["architecture"] == architecture


def ptx_of(text, *specs, dtype="f32", architecture="sm_90"):
    return build(text, arrays(specs, dtype), architecture).artifact.assembly["ptx"]


def count(ptx, instruction):
    return len(re.findall(rf"^\s+{instruction}\b", ptx, re.MULTILINE))


def test_elementwise_reads_sixteen_bytes_at_a_time():
    ptx = ptx_of(wia_kernels.get("vector_add").text, (1 << 20,), (1 << 20,))
    assert count(ptx, r"ld\.global\.nc\.v4\.b32") == 2
    assert count(ptx, r"st\.global\.v4\.b32") == 1
    assert count(ptx, r"ld\.global") == 2


def test_matmul_goes_through_shared_memory():
    ptx = ptx_of(MATMUL, (256, 128), (128, 256))
    assert count(ptx, r"fma\.rn\.f32") == 4 * 4 * 16
    assert count(ptx, r"ld\.shared\.v4") == count(ptx, r"ld\.shared") == 2 * 16
    assert count(ptx, r"bar\.sync") == 2
    assert count(ptx, r"st\.global\.v4") == 4
    assert re.search(r"\.shared \.align 16 \.b8 \S+\[4096\]", ptx)


def test_rows_are_folded_by_butterflies():
    softmax = wia_kernels.get("softmax").text
    warp = ptx_of(softmax, (512, 512))
    assert count(warp, r"shfl\.sync\.bfly\.b32") == 2 * 5
    assert count(warp, r"bar\.sync") == 0
    assert count(warp, r"ld\.global\S*\.v4\.b32") == count(warp, r"ld\.global") == 4, (
        "the row is read once: 16 elements a lane, four at a time"
    )
    block = ptx_of(softmax, (3, 4096))
    assert count(block, r"bar\.sync") == 2
    assert "ld.shared" in block and "st.shared" in block


def test_loops_stay_as_they_are_written():
    """ptxas would unroll them, and then no count of PTX instructions predicts those of SASS."""
    ptx = ptx_of(MATMUL, (64, 512), (512, 64))
    assert '.pragma "nounroll";' in ptx


def test_f16_is_converted_not_called():
    ptx = ptx_of(MATMUL, (64, 64), (64, 64), dtype="bf16", architecture="sm_80")
    assert re.search(r"cvt\.rn\.bf16(x2)?\.f32", ptx)
    assert "call" not in ptx


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_no_function_is_called(name, dtype):
    kernel = wia_kernels.get(name)
    ptx = build(kernel.text, arrays(kernel.shapes[1], dtype), "sm_90").artifact.assembly["ptx"]
    assert not re.search(r"\bcall\b|\.extern", ptx)


def test_a_call_of_nothing_is_refused():
    ptx = ".extern .func (.param .b32 retval0) llvm_nothing\n(\n\t.param .b32 p\n)\n;"
    with pytest.raises(TargetError, match="calls llvm_nothing, which it does not define"):
        emit.refuse_calls(ptx)
    emit.refuse_calls(".visible .entry k()\n{ ret; }")


def test_a_lone_kernel_is_called_after_the_users():
    assert ".entry vector_add_kernel(" in ptx_of(wia_kernels.get("vector_add").text, (9,), (9,))
    assert ".entry mm_kernel(" in ptx_of(MATMUL, (9, 9), (9, 9))


def test_several_kernels_in_the_order_in_which_they_run():
    text = """kernel two(input A: tensor, input B: tensor, output C: tensor) {
        C = softmax(A @ B, axis=1);
    }"""
    artifact = build(text, arrays(((9, 20), (20, 30))), "sm_90").artifact
    launches = artifact.metadata["launches"]
    assert [launch["entry"] in artifact.assembly["ptx"] for launch in launches] == [True, True]
    assert launches[0]["buffers"] == [0, 1, 3] and launches[1]["buffers"] == [3, 2]
    assert artifact.metadata["workspace_bytes"] == [9 * 30 * 4]
    assert all(launch["grid"][0] >= 1 and launch["block"][0] >= 32 for launch in launches)


def test_nothing_to_compute():
    artifact = build(MATMUL, arrays(((0, 8), (8, 3))), "sm_90").artifact
    assert artifact.metadata["launches"] == []
    assert ".version" in artifact.assembly["ptx"]


def test_the_same_text_twice_is_the_same_ptx():
    assert ptx_of(MATMUL, (70, 33), (33, 65)) == ptx_of(MATMUL, (70, 33), (33, 65))


@needs_ptxas
def test_lines_lead_back_to_the_source():
    """Every instruction of the PTX and the SASS that does the kernel's work names its line."""
    text = "kernel k(\n input A: tensor,\n output C: tensor) {\n let s = A * A;\n C = s + 1.0;\n}"
    compiled = build(text, arrays(((1000,),)), "sm_90", with_sass=True)
    ptx, sass = compiled.trace.stage("ptx"), sass_of(compiled)
    for stage, work in ((ptx, ("mul.rn.f32", "add.rn.f32")), (sass, ("FFMA", "FADD", "FMUL"))):
        lines = stage.text.split("\n")
        spans = {
            span.line
            for number, found in stage.line_spans.items()
            if any(each in lines[number - 1] for each in work)
            for span in found
        }
        assert spans and spans <= {4, 5}, (stage.name, spans)
    share = len(ptx.line_spans) / sum(bool(re.match(r"\s+[a-z@].*;", x)) for x in lines_of(ptx))
    assert share > 0.8
    assert sass.level == "machine" and sass.language == "sass"


def sass_of(compiled):
    (stage,) = make_target(compiled.artifact.target).later_stages(compiled.artifact, compiled.trace)
    return stage


def lines_of(stage):
    body = stage.text.partition("{")[2]
    return [line for line in body.split("\n") if not line.strip().startswith((".", "//"))]


@needs_ptxas
def test_stages_and_files():
    compiled = build(MATMUL, arrays(((9, 9), (9, 9))), "sm_80", with_sass=True)
    names = [stage.name for stage in compiled.trace.stages]
    assert names[-2:] == ["llvm", "ptx"]
    assert [names.index(each) for each in ("loops", "schedule", "lower")] == sorted(
        names.index(each) for each in ("loops", "schedule", "lower")
    )
    assert set(compiled.artifact.assembly) == {"llvm", "ptx"}
    assert compiled.artifact.later == ("sass",) and sass_of(compiled).name == "sass"
    assert compiled.artifact.files["kernel.cubin"][:4] == b"\x7fELF"
    (decision,) = compiled.trace.stage("schedule").decisions
    assert decision.numbers["threads"] == compiled.artifact.resources["threads_per_block"]
    assert f".maxntid {decision.numbers['threads']}" in compiled.artifact.assembly["ptx"]


def test_without_ptxas_the_ptx_is_there(monkeypatch):
    monkeypatch.setattr(machine_code, "find_tool", lambda name: None)
    compiled = build(MATMUL, arrays(((9, 9), (9, 9))), "sm_90")
    assert [stage.name for stage in compiled.trace.stages][-1] == "ptx"
    assert tools.INSTALL_COMMAND in compiled.artifact.resources["missing"]
    (decision,) = compiled.trace.stage("schedule").decisions
    assert compiled.artifact.resources["threads_per_block"] == decision.numbers["threads"]


@needs_ptxas
def test_without_nvdisasm_the_resources_are_there(monkeypatch):
    find = tools.find_tool
    monkeypatch.setattr(
        machine_code, "find_tool", lambda name: find(name) if name == "ptxas" else None
    )
    compiled = build(MATMUL, arrays(((9, 9), (9, 9))), "sm_90", with_sass=True)
    assert compiled.artifact.later == ()
    assert compiled.artifact.resources["registers"] > 0
    assert compiled.artifact.resources["missing"].startswith("SASS needs nvdisasm: pip install")


@needs_ptxas
@pytest.mark.parametrize("architecture", [name.removeprefix("gpu:") for name in targets()])
def test_code_size_is_that_of_the_sass(architecture):
    """It is read off the cubin: of each entry to its last instruction, calls of divisions too."""
    text = "kernel k(input A: tensor, output C: tensor) { C = cumsum(1.0 / A, axis=0); }"
    compiled = build(text, arrays(((9000,),)), architecture, with_sass=True)
    resources, sass = compiled.artifact.resources, sass_of(compiled).text
    assert len(resources["entries"]) > 1
    assert resources["instructions"] == sass.count(";\n")
    assert resources["code_bytes"] == 16 * resources["instructions"]
    places = [int(place, 16) for place in re.findall(r"/\*([0-9a-f]{4,})\*/", sass)]
    ends = [at for at, after in zip(places, [*places[1:], 0], strict=True) if after == 0]
    assert sum(ends) + 16 * len(ends) == resources["code_bytes"]


@pytest.mark.parametrize(
    "shapes,butterflies,barriers",
    [
        (((3000, 1000), (1000,)), 5, 0),  # a warp for each row
        (((300, 1000), (1000,)), 6, 2),  # two, whose sums meet in shared memory
        (((1000,), (1000, 30)), 2, 2),  # 8 columns side by side, 4 rows of them in a warp
    ],
)
def test_a_matrix_times_a_vector_folds_in_warps(shapes, butterflies, barriers):
    ptx = ptx_of(MATMUL, *shapes)
    assert count(ptx, r"shfl\.sync\.bfly\.b32") == butterflies
    assert count(ptx, r"bar\.sync") == barriers


def test_targets():
    assert "gpu:sm_90" in targets() and "gpu:sm_120" in targets()
    assert make_target("gpu").name == "gpu:sm_90"
    assert make_target("gpu:sm_80").facts.name == "gpu:sm_80"
    with pytest.raises(TargetError, match=r"no target 'gpu:sm_20'; GPUs are: gpu:sm_75"):
        make_target("gpu:sm_20")


def test_running_without_gpu_and_simulator_says_what_is_missing():
    artifact = Artifact("gpu:sm_90", "k", {}, {})
    if __import__("importlib.util").util.find_spec("cupy") is not None:
        pytest.skip("cupy is installed: tests/device runs kernels")
    with pytest.raises(
        TargetError, match=r"needs a GPU of this machine and cupy.*pip install cupy"
    ):
        make_target("gpu").load(artifact)
