"""Calls after the first: short, and as careful as the first."""

import numpy as np
import pytest
from runtime_fakes import FakeCompiler, fake_program, fake_session
from wia_compiler.base.errors import ArgumentError

PROGRAM = """
kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }
kernel scaled(input A: tensor, alpha: f32 = 2.0, output B: tensor) { B = A * alpha; }
kernel both(input A: tensor, output S: tensor, output D: tensor) { S = A + A; D = A - A; }
kernel update(inout D: tensor, input A: tensor) { D = D + A; }
"""
A = np.arange(16, dtype=np.float32)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


@pytest.fixture
def program():
    return fake_program(PROGRAM)


def read_count(monkeypatch) -> list[int]:
    """Counts how often arguments are read the long way."""
    from wia_compiler.runtime import kernel as kernel_module

    count = [0]
    read = kernel_module.read_arguments

    def counting(*arguments):
        count[0] += 1
        return read(*arguments)

    monkeypatch.setattr(kernel_module, "read_arguments", counting)
    return count


def test_equal_kinds_take_the_short_way(program, monkeypatch):
    count = read_count(monkeypatch)
    for step in range(5):
        np.testing.assert_array_equal(program.add(A + step, A), A + step + A)
    assert count == [1]
    first, second = program.both(A)
    again, _ = program.both(A)
    assert count == [2] and again is not first
    np.testing.assert_array_equal(second, A * 0)


def test_other_kinds_do_not(program, monkeypatch):
    count = read_count(monkeypatch)
    wide = np.arange(32, dtype=np.float32)
    for arrays in ((A, A), (A[:8], A[:8]), (wide[::2], A), (A.astype("f8"), A.astype("f8"))):
        np.testing.assert_array_equal(program.add(*arrays), arrays[0] + arrays[1])
    assert count == [4]
    np.testing.assert_array_equal(program.add(wide[1::2], A), wide[1::2] + A)
    assert count == [4]  # the same strides from another start


def test_every_call_gives_an_array_of_its_own(program):
    results = [program.add(A, A) for _ in range(3)]
    results[0][...] = 0
    np.testing.assert_array_equal(results[2], A * 2)


def test_scalars_are_checked_each_time(program, monkeypatch):
    count = read_count(monkeypatch)
    for alpha in (2.0, 3.0, -1.0):
        np.testing.assert_array_equal(program.scaled(A, alpha), A * np.float32(alpha))
    np.testing.assert_array_equal(program.scaled(A), A * 2)
    np.testing.assert_array_equal(program.scaled(A), A * 2)
    assert count == [2]
    with pytest.raises(ArgumentError, match="too large for f32"):
        program.scaled(A, 1e39)
    with pytest.raises(ArgumentError, match="expected a number"):
        program.scaled(A, True)


def test_out_is_checked_each_time(program, monkeypatch):
    count = read_count(monkeypatch)
    for _ in range(3):
        out = np.empty_like(A)
        assert program.add(A, A, out=out) is out
        np.testing.assert_array_equal(out, A * 2)
    assert count == [1]
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        program.add(A, A, out=out)


def test_out_that_overlaps_an_input_goes_the_long_way(program):
    memory = np.arange(17, dtype=np.float32)
    program.add(memory[:16].copy(), A, out=np.empty_like(A))
    expected = memory[:16] + memory[:16]
    program.add(memory[:16], memory[:16], out=memory[1:])
    np.testing.assert_array_equal(memory[1:], expected)


def test_unaligned_arrays_go_the_long_way(program, monkeypatch):
    program.add(A, A)
    count = read_count(monkeypatch)
    unaligned = np.zeros(A.nbytes + 1, np.uint8)[1:].view(np.float32)
    unaligned[...] = A
    np.testing.assert_array_equal(program.add(unaligned, A), A * 2)
    out = np.zeros(A.nbytes + 1, np.uint8)[1:].view(np.float32)
    np.testing.assert_array_equal(program.add(A, A, out=out), A * 2)
    assert count[0] == 2


def test_converted_arguments_are_never_remembered(program):
    class Wrapped:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    for step in range(3):
        np.testing.assert_array_equal(program.add(Wrapped(A + step), A), A + step + A)
        np.testing.assert_array_equal(program.add((A + step).astype(">f4"), A), A + step + A)
        np.testing.assert_array_equal(program.add(np.ma.getdata(A + step), A), A + step + A)


def test_inout_is_updated_by_every_call(program):
    d = np.zeros(16, np.float32)
    for _ in range(3):
        program.update(d, A)
    np.testing.assert_array_equal(d, A * 3)


def test_keywords_and_positions_agree(program):
    compiler = FakeCompiler()
    program = fake_program(PROGRAM, fake_session(compiler))
    for _ in range(2):
        np.testing.assert_array_equal(program.add(A, B=A), A * 2)
        np.testing.assert_array_equal(program.add(B=A, A=A), A * 2)
        np.testing.assert_array_equal(program.add(A, A), A * 2)
    assert compiler.calls == ["add"]


def test_remembered_kinds_are_bounded(program, monkeypatch):
    from wia_compiler.runtime import fast_call, kernel

    monkeypatch.setattr(fast_call, "MAX_KINDS", 3)
    monkeypatch.setattr(kernel, "MAX_KINDS", 3)
    for size in range(1, 10):
        for _ in range(2):
            np.testing.assert_array_equal(program.add(A[:size], A[:size]), A[:size] * 2)
    assert len(program.add._fast) <= 3 and len(program.add._builds) <= 3


def test_builds_called_again_are_as_short_and_as_strict(program, monkeypatch):
    from wia_compiler.runtime import build as build_module

    build = program.add.build(A, A)
    np.testing.assert_array_equal(build(A, A), A * 2)

    def unexpected(*arguments):
        raise AssertionError("the long way")

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "read_arguments", unexpected)
        np.testing.assert_array_equal(build(A + 1, A), A * 2 + 1)
    with pytest.raises(ArgumentError, match="this was built for"):
        build(A[:8], A[:8])
    # Copied into the layout that it was built for, each time.
    for _ in range(2):
        np.testing.assert_array_equal(build(A[::-1], A), A[::-1] + A)
