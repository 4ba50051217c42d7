"""What a call takes and what it refuses, with messages that say what to do."""

import ml_dtypes
import numpy as np
import pytest
from runtime_fakes import fake_program
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import ArgumentError

PROGRAM = """
kernel copy(input A: tensor, output B: tensor) { B = A; }
kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }
kernel named(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor) {
  C = A @ B;
}
kernel fixed(input A: tensor<4x8xf32>, output B: tensor) { B = A; }
kernel scaled(input A: tensor, alpha: f32 = 2.0, output B: tensor) { B = A * alpha; }
kernel counted(input A: tensor<?xi32>, n: i32, output B: tensor) { B = A + n; }
kernel update(inout D: tensor, input A: tensor) { D = D + A; }
"""


@pytest.fixture(scope="module")
def program():
    return fake_program(PROGRAM)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


def refused(call, *arguments, **keywords) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


VIEWS = {
    "C order": lambda a: a,
    "Fortran order": np.asfortranarray,
    "transposed": lambda a: a.T,
    "negative strides": lambda a: a[::-1, ::-1],
    "every other": lambda a: a[::2, 1::3],
    "broadcast": lambda a: np.broadcast_to(a[0], (5, a.shape[1])),
    "read-only": lambda a: _read_only(a),
    "one row": lambda a: a[3:4],
    "one element": lambda a: a[2:3, 2:3],
    "no elements": lambda a: a[:0],
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": lambda a: _unaligned(a),
    "field of a record": lambda a: _field(a),
}


def _read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


def _field(array):
    records = np.zeros(array.shape, [("tag", np.uint8), ("value", array.dtype)])
    records["value"] = array
    view = records["value"]
    assert view.strides[-1] % array.itemsize != 0
    return view


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_every_layout_is_read_right(program, view):
    array = view(np.arange(42, dtype=np.float32).reshape(6, 7))
    result = program.copy(array)
    np.testing.assert_array_equal(result, array.astype(np.float32))
    assert result.flags.c_contiguous and result.flags.writeable


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_dtype_passes_through(program, dtype):
    array = np.arange(5).astype(dtype.numpy)
    result = program.copy(array)
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(result, array)


def test_layouts_are_specialised_and_equal_ones_shared(program):
    array = np.zeros((6, 7), np.float32)
    assert program.copy.build(array).inputs[0].strides is None
    assert program.copy.build(array.T).inputs[0].strides == (1, 7)
    assert program.copy.build(array[::-1]).inputs[0].strides == (-7, 1)
    # The stride of an axis of size 1 decides nothing.
    assert program.copy.build(array[:1]).inputs[0].strides is None
    one_column = program.copy.build(array[:, 3:4])
    assert one_column.inputs[0].strides == (7, 0)


class OnlyArray:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class OnlyDlpack:
    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.device


def test_takes_whatever_has_an_array_protocol(program):
    array = np.arange(4, dtype=np.float32)
    for value in (OnlyArray(array), OnlyDlpack(array), only_interface(array), subclass(array)):
        result = program.copy(value)
        np.testing.assert_array_equal(result, array)
        assert type(result) is np.ndarray


def subclass(array):
    class Subclass(np.ndarray):
        pass

    return array.view(Subclass)


def only_interface(array):
    class Interface:
        __array_interface__ = array.__array_interface__

    return Interface()


def test_array_on_a_device_says_how_to_copy_it(program):
    message = refused(program.copy, OnlyDlpack(np.zeros(3, np.float32), device=(2, 1)))
    assert "copy(A)" in message and "CUDA:1" in message and "array.get()" in message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([1, None], object), "Python objects"),
        (np.zeros(3, [("x", "f4"), ("y", "f4")]), "array['x']"),
        (np.ma.masked_array(np.zeros(3), [0, 1, 0]), "filled(0)"),
        (np.zeros(3, np.complex64), "complex64"),
        (np.zeros(3, np.uint32), "astype(np.int64)"),
        (np.array(["a"]), "<U1"),
        ([1.0, 2.0], "np.asarray(values, dtype=np.float32)"),
        (3.0, "np.float32(3.0)"),
        (None, "None"),
        ("text", "the str 'text'"),
    ],
)
def test_what_no_kernel_can_read_is_refused(program, value, expected):
    message = refused(program.copy, value)
    assert message.startswith("copy(A): ") and expected in message and "help: " in message


def test_missing_extra_doubled_and_unknown_arguments(program):
    a = np.zeros(3, np.float32)
    assert "B is missing" in refused(program.add, a)
    assert "A and B are missing" in refused(program.add)
    assert "got 3 arguments, expected 2 (A, B)" in refused(program.add, a, a, a)
    assert "out=" in refused(program.add, a, a, a)
    assert "given twice" in refused(program.add, a, a, A=a)
    assert "did you mean alpha=" in refused(program.scaled, a, alphq=1.0)
    assert "C is an output" in refused(program.add, a, a, C=a)


def test_declared_dtype_rank_and_sizes(program):
    good = np.zeros((4, 8), np.float32)
    message = refused(program.fixed, good.astype(np.float64))
    assert "got f64[4,8], expected f32 as declared: A: tensor<4, 8, f32>" in message
    assert "A.astype(np.float32)" in message
    assert "with 1 axis, expected 2" in refused(program.fixed, good[0])
    assert "axis 1 has size 7, expected 8 as declared" in refused(program.fixed, good[:, :7])
    message = refused(program.named, good, np.zeros((7, 2), np.float32))
    assert "named(B): axis 0 has size 7, expected 8 (K is axis 1 of A)" in message


def test_scalars_and_their_defaults(program):
    a = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(program.scaled(a), a * 2)
    for three in (3, 3.0, np.float32(3), np.float64(3), np.array(3.0), ml_dtypes.bfloat16(3)):
        np.testing.assert_array_equal(program.scaled(a, three), a * 3)
        np.testing.assert_array_equal(program.scaled(a, alpha=three), a * 3)
    assert np.isinf(program.scaled(a, float("inf"))[1:]).all()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1e39, "too large for f32"),
        (10**400, "too large for f32"),
        (True, "expected a number (f32)"),
        ("2", "expected a number (f32)"),
        (1j, "expected a number (f32)"),
        (np.zeros(2, np.float32), "an array f32[2]"),
    ],
)
def test_scalars_that_do_not_fit_a_float(program, value, expected):
    assert expected in refused(program.scaled, np.zeros(3, np.float32), value)


def test_scalars_that_do_not_fit_an_integer(program):
    a = np.zeros(3, np.int32)
    np.testing.assert_array_equal(program.counted(a, -(2**31)), np.full(3, -(2**31)))
    assert "-2147483648 … 2147483647" in refused(program.counted, a, 2**31)
    assert "expected a whole number (i32)" in refused(program.counted, a, 2.5)


def test_inout_is_updated_in_place(program):
    for view in (lambda a: a, lambda a: a[::2], lambda a: a.T, _unaligned):
        whole = view(np.arange(6, dtype=np.float32).reshape(2, 3))
        before = whole.copy()
        result = program.update(whole, np.ones_like(before))
        np.testing.assert_array_equal(whole, before + 1)
        assert np.shares_memory(result, whole)
    foreign = np.arange(3, dtype=">f4")
    program.update(foreign, np.ones(3, np.float32))
    np.testing.assert_array_equal(foreign, [1, 2, 3])


def test_inout_of_no_elements(program):
    for empty in (np.zeros((0, 3), np.float32), np.zeros((6, 7), np.float32)[:0]):
        assert program.update(empty, empty.copy()).shape == empty.shape


def test_inout_may_overlap_an_input(program):
    memory = np.arange(5, dtype=np.float32)
    program.update(memory[1:], memory[:-1])
    np.testing.assert_array_equal(memory, [0, 1, 3, 5, 7])


def test_inout_that_cannot_be_written(program):
    a = np.zeros(3, np.float32)
    assert "read-only" in refused(program.update, _read_only(a), a)
    assert "broadcast view" in refused(
        program.update, np.lib.stride_tricks.as_strided(a, (3,), (0,)), a
    )
    assert "cannot be written in place" in refused(program.update, OnlyArray(a), a)
    assert "cannot be written in place" in refused(program.update, np.float32(1), a)


def test_specs_cannot_be_called(program):
    from wia_compiler.runtime.specs import spec

    assert "no elements to compute with" in refused(program.copy, spec(3))
