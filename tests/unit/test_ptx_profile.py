"""``wia.ptx.profile``: anyone's PTX with counters, resources, an estimate, lines and advice."""

import json

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.errors import ArgumentError, TargetError

PRODUCT = wia.compile(
    "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
).mm
COPY = """
.version 7.0
.target sm_80
.address_size 64
.file 1 "copy.cu"
.visible .entry copy(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<3>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
    .loc 1 2 5
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, 32, %r1;
    mul.wide.u32 %rd0, %r0, STRIDE;
    .loc 1 3 5
    ld.param.u64 %rd1, [x]; add.s64 %rd1, %rd1, %rd0; ld.global.f32 %f0, [%rd1];
    .loc 1 4 5
    ld.param.u64 %rd2, [y]; add.s64 %rd2, %rd2, %rd0; st.global.f32 [%rd2], %f0;
    ret;
}
"""
SOURCE = "void copy() {\n  i = id();\n  v = x[i];\n  y[i] = v;\n}\n"


def copied(stride=4, **options):
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    blocks = 1024 * 4 // stride // 32
    found = wia.ptx.profile(
        COPY.replace("STRIDE", str(stride)), "copy", blocks, 32, [x, y], **options
    )
    np.testing.assert_array_equal(y[:: stride // 4], x[:: stride // 4])
    return found


def test_the_text_of_a_build_gives_the_profile_of_the_build():
    A, B = np.ones((64, 40), np.float32), np.ones((40, 48), np.float32)
    build = PRODUCT.build(A, B, target="gpu:sm_80")
    expected = build.profile(A, B, device="A100")
    (launch,) = build.artifact.metadata["launches"]
    C = np.zeros((64, 48), np.float32)
    found = wia.ptx.profile(
        build.assembly("ptx"),
        launch["entry"],
        launch["grid"],
        launch["block"],
        [A, B, C],
        shared_bytes=launch["dynamic_shared_bytes"],
        device="A100",
    )
    np.testing.assert_array_equal(C, 40)
    assert found.counters == expected.counters
    assert found.estimate.time == pytest.approx(expected.estimate.time)
    assert found.estimate.parts == pytest.approx(expected.estimate.parts)
    assert found.resources["registers"] == expected.resources["registers"]
    assert found.lines.totals == expected.lines.totals
    assert found.source == "simulated" and found.target == "gpu:sm_80"
    json.loads(found.to_json())


def test_bytes_flops_and_advice():
    found = copied()
    assert (found.flops, found.bytes, found.time) == (0, 2 * 4096, None)
    assert not [each for each in found.advice if each.rule == "accesses not coalesced"]
    scattered = copied(stride=32)
    assert [each for each in scattered.advice if each.rule == "accesses not coalesced"]
    assert copied(size_bytes=77).bytes == 77
    assert copied(device="H100").estimate.device == "H100"


def test_lines_of_the_source_that_loc_speaks_of():
    table = copied(source=SOURCE).lines.by_source()
    sectors = {row.line: row["global_sectors"] for row in table.rows}
    assert sectors[3] == sectors[4] == 128 and sectors[2] == 0
    assert table.row(3).text == "v = x[i];"
    assert [row.line for row in copied().lines.by_source().rows] == [0]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_products_of_matrices_are_measured_by_the_roof_of_their_operands(dtype):
    arrays = [wia.spec((128, 128), dtype)] * 2
    build = PRODUCT.build(*arrays, target="gpu:sm_80")
    (launch,) = build.artifact.metadata["launches"]
    held = [np.zeros((128, 128), each.spec.dtype.numpy) for each in (*build.inputs, *build.outputs)]
    found = wia.ptx.profile(
        build.assembly("ptx"),
        launch["entry"],
        launch["grid"],
        launch["block"],
        held,
        shared_bytes=launch["dynamic_shared_bytes"],
    )
    assert found.counters["ptx_inst_pipe_tensor"] > 0
    compute = found.estimate.roofline.compute
    assert compute is not None and "tensor" in compute.name


def test_what_cannot_be():
    with pytest.raises(ArgumentError, match=r"names no \.target"):
        wia.ptx.profile("hello", "copy", 1, 32, [])
    with pytest.raises(ArgumentError, match=r"\.target sm_20: what is known of is sm_75"):
        wia.ptx.profile(COPY.replace("sm_80", "sm_20"), "copy", 1, 32, [])
    with pytest.raises(ArgumentError, match="H1000"):
        copied(device="H1000")
    with pytest.raises(TargetError, match="nothing was measured"):
        copied().evidence.measured()
    with pytest.raises(TargetError, match="compare its profile with another profile"):
        copied().compare(PRODUCT.build(*[wia.spec((4, 4), "f32")] * 2))


def test_two_texts_are_compared():
    text = str(copied().compare(copied(stride=32)))
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in text
