"""Results, ``out=`` in all its forms, builds called again, and repeated runs."""

import numpy as np
import pytest
from runtime_fakes import FakeCompiler, fake_program, fake_session
from wia_compiler.base.errors import ArgumentError, TargetError
from wia_compiler.runtime.specs import spec

PROGRAM = """
kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }
kernel both(input A: tensor, output S: tensor, output D: tensor) { S = A + A; D = A - A; }
kernel update(inout D: tensor, input A: tensor) { D = D + A; }
kernel mixed(inout D: tensor, input A: tensor, output C: tensor) { C = D + A; D = D * A; }
kernel gives(input A: tensor) { return A + A; }
"""


@pytest.fixture(scope="module")
def program():
    return fake_program(PROGRAM)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


A = np.arange(6, dtype=np.float32).reshape(2, 3)


def refused(call, *arguments, **keywords) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


def test_one_result_or_a_tuple(program):
    np.testing.assert_array_equal(program.gives(A), A * 2)
    total, difference = program.both(A)
    np.testing.assert_array_equal(total, A * 2)
    np.testing.assert_array_equal(difference, A * 0)


def test_out_is_written_and_returned(program):
    out = np.empty((2, 3), np.float32)
    for _ in range(2):
        out[...] = -1
        assert program.add(A, A, out=out) is out
        np.testing.assert_array_equal(out, A * 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.empty((3, 2), np.float32).T,
        lambda: np.empty((4, 6), np.float32)[::2, ::2],
        lambda: np.empty((2, 3), np.float32)[::-1],
        lambda: np.empty((2, 3), ">f4"),
        lambda: np.empty(25, np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
    ids=["Fortran order", "strided", "negative", "other byte order", "unaligned"],
)
def test_out_of_any_layout(program, make):
    out = make()
    assert program.add(A, A, out=out) is out
    np.testing.assert_array_equal(out, A * 2)


def test_out_may_be_an_input_or_overlap_one(program):
    memory = np.arange(5, dtype=np.float32)
    expected = memory[:-1] + memory[:-1]
    program.add(memory[:-1], memory[:-1], out=memory[1:])
    np.testing.assert_array_equal(memory[1:], expected)
    same = A.copy()
    assert program.add(same, same, out=same) is same
    np.testing.assert_array_equal(same, A * 2)


def test_out_for_several_results(program):
    first, second = np.empty_like(A), np.empty_like(A)
    result = program.both(A, out=(first, second))
    assert result[0] is first and result[1] is second
    result = program.both(A, out={"D": second})
    assert result[1] is second and result[0] is not first
    np.testing.assert_array_equal(second, A * 0)
    assert "expected 2 (S, D)" in refused(program.both, A, out=first)
    assert "no output 'E'" in refused(program.both, A, out={"E": first})
    assert "overlap" in refused(program.both, A, out=(first, first))


def test_out_beside_inout(program):
    d, c = np.full((2, 3), 2, np.float32), np.empty((2, 3), np.float32)
    result = program.mixed(d, A, out=c)
    np.testing.assert_array_equal(d, A * 2)
    np.testing.assert_array_equal(c, A + 2)
    assert result[0] is d and result[1] is c
    assert "overlap" in refused(program.mixed, d, A, out=d)
    assert "only inout" in refused(program.update, d, A, out=c)


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (np.empty((3, 2), np.float32), "got an array f32[3,2], expected f32[2,3]"),
        (np.empty((2, 3), np.float64), "got an array f64[2,3], expected f32[2,3]"),
        (np.empty((2, 3), np.complex64), "complex64"),
        (np.broadcast_to(np.float32(0), (2, 3)), "read-only"),
        (1.0, "cannot be written in place"),
        ([1.0], "cannot be written in place"),
    ],
)
def test_out_that_cannot_be_written(program, out, expected):
    message = refused(program.add, A, A, out=out)
    assert "add(out=C)" in message and expected in message


def test_build_runs_what_it_was_built_for(program):
    build = program.add.build(spec((2, 3)), spec((2, 3)))
    np.testing.assert_array_equal(build(A, A), A * 2)
    # Built for C order: other layouts are copied into it, other shapes are not its kernel.
    np.testing.assert_array_equal(build(np.asfortranarray(A), A[::-1]), A + A[::-1])
    assert "got f32[3], this was built for f32[2,3]" in refused(build, A[0], A)
    assert "this was built for f32[2,3]" in refused(build, A.astype(np.float64), A)
    strided = program.add.build(A.T, A.T)
    np.testing.assert_array_equal(strided(A.T, A.T), A.T * 2)
    assert "this was built for f32[3,2] strides(1, 3)" in refused(strided, A.reshape(3, 2), A.T)


def test_prepared_calls_repeat_without_touching_arguments(program):
    d = np.ones((2, 3), np.float32)
    call = program.update.build(d, A).prepare(d, A)
    for _ in range(3):
        assert call.execute() == {"runs": 1}
    np.testing.assert_array_equal(d, np.ones((2, 3)))
    assert call.finish() is d
    np.testing.assert_array_equal(d, A + 1)


def test_a_build_says_what_it_is(program):
    build = program.add.build(A, A)
    assert build.kernel == "add" and build.target.name == "cpu"
    assert [str(spec.spec) for spec in build.outputs] == ["tensor<2x3xf32>"]
    assert (build.flops, build.size_bytes, build.formats) == (7, 11, ["x86"])
    assert build.resources == {"code_bytes": 1}
    assert [stage.name for stage in build.stages] == ["source", "import", "machine"]
    assert build.stage("machine").text == build.assembly("x86") == "ret"
    assert "add(A: f32[2,3], B: f32[2,3]) -> f32[2,3] for cpu" in repr(build)
    with pytest.raises(ArgumentError, match=r"no stage 'importt'.*did you mean 'import'"):
        build.stage("importt")
    with pytest.raises(TargetError, match=r"no 'ptx' text for target cpu.*x86"):
        build.assembly("ptx")


def test_to_binds_a_target_and_build_overrides_it(program):
    kernel = program.add.to("fake:two")
    assert kernel.target.name == "fake:two" and program.add.target.name == "cpu"
    assert kernel.build(A, A).target.name == "fake:two"
    assert kernel.build(A, A, target="fake:three").target.name == "fake:three"
    np.testing.assert_array_equal(kernel(A, A), A * 2)


def test_a_build_goes_to_another_target_with_its_shapes_and_layouts(program):
    build = program.add.build(A.T, A.T)
    other = build.to("fake:two")
    assert other.target.name == "fake:two" and other.inputs == build.inputs
    assert build.target.name == "cpu"
    np.testing.assert_array_equal(other(A.T, A.T), A.T * 2)


def test_compile_once_for_each_kind_of_arguments():
    compiler = FakeCompiler()
    program = fake_program(PROGRAM, fake_session(compiler))
    for _ in range(3):
        program.add(A, A)
    assert compiler.calls == ["add"]
    program.add(A.T, A.T)
    program.add(A.astype(np.float64), A.astype(np.float64))
    program.add(A[:1], A[:1])
    assert compiler.calls == ["add"] * 4


def test_zero_sizes_have_shape_and_dtype(program):
    for shape in ((0,), (0, 4), (3, 0, 2)):
        result = program.add(np.zeros(shape, np.float16), np.zeros(shape, np.float16))
        assert result.shape == shape and result.dtype == np.float16
