"""Calls in machine code: which calls take that way, and that they are as careful as the others."""

import ctypes
import functools
import gc
import inspect
import subprocess
import sys
import threading

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.runtime.native import callable as native_callable
from wia_compiler.runtime.native.library import native_library

PROGRAM = """
kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }
kernel scaled(input A: tensor, alpha: f32 = 2.0, output B: tensor) { B = A * alpha; }
kernel shifted(input A: tensor, by: i16, output B: tensor) { B = cast(A, i16) + by; }
kernel wide(input A: tensor, by: f64, output B: tensor) { B = cast(A, f64) + by; }
kernel chosen(input A: tensor, flag: bool, output B: tensor) { B = where(flag, A, -A); }
kernel both(input A: tensor, output S: tensor, output D: tensor) { S = A + A; D = A - A; }
kernel update(inout D: tensor, input A: tensor) { D = D + A; }
kernel swap(inout D: tensor, inout E: tensor) { t = D; D = E; E = t; }
kernel row(input A: tensor, output R: tensor) { R = reduce_sum(softmax(A, axis=1), axis=0); }
kernel gather_row(input A: tensor<N, f32>, input at: tensor<1, i64>, output B: tensor<1, f32>) {
    B[0] = A[at[0]];
}
"""
A = np.arange(16, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def known_interpreter():
    if native_library() is None:
        pytest.skip("this interpreter lays out objects in a way that is not known")


@pytest.fixture
def program():
    return wia.compile(PROGRAM)


@pytest.fixture
def python_calls(monkeypatch):
    """The names of kernels that were called in Python, in order."""
    made: list[str] = []
    in_python = wia.Kernel._call_in_python

    def counting(self, *arrays, out=None, **keywords):
        made.append(self.name)
        return in_python(self, *arrays, out=out, **keywords)

    monkeypatch.setattr(wia.Kernel, "_call_in_python", counting)
    return made


def test_known_kinds_of_calls_need_no_python(program, python_calls):
    for step in range(4):
        np.testing.assert_array_equal(program.add(A + step, A), A + step + A)
        s, d = program.both(A)
        np.testing.assert_array_equal(s, A + A)
        np.testing.assert_array_equal(d, A * 0)
    assert python_calls == ["add", "both"]


@pytest.mark.parametrize("size", [0, 1, 3, 17, 127, 1000, 1025, 40000])
def test_every_size_has_its_plan(program, python_calls, size):
    x = np.arange(size, dtype=np.float32)
    for _ in range(3):
        result = program.add(x, x)
        assert result.shape == x.shape and result.dtype == x.dtype
        assert result.flags.owndata and result.flags.writeable and result.flags.aligned
        np.testing.assert_array_equal(result, x + x)
    assert python_calls == ["add"]


def test_layouts_are_told_apart(program, python_calls):
    wide = np.arange(64, dtype=np.float32).reshape(8, 8)
    views = [
        wide,
        wide.T,
        wide[::-1],
        wide[:, ::-2],
        wide[2:5, 1:4],
        np.broadcast_to(A[:8], (8, 8)),
    ]
    for _ in range(3):
        for view in views:
            np.testing.assert_array_equal(program.add(view, view), view + view)
    assert len(python_calls) == len(views)
    assert len(program.add._plans) == len(views)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1"])
def test_dtypes_are_told_apart(program, python_calls, dtype):
    x = np.ones(16, dtype)
    for _ in range(2):
        assert program.both(x)[0].dtype == x.dtype
        assert program.add(A, A).dtype == np.float32
    assert python_calls == ["both", "add"]


def test_more_kinds_than_plans(program, python_calls, monkeypatch):
    monkeypatch.setattr(native_callable, "MAX_PLANS", 3)
    for _ in range(2):
        for size in range(1, 8):
            np.testing.assert_array_equal(program.add(A[:size], A[:size]), A[:size] * 2)
    assert len(program.add._plans) == 3


def test_scalars_are_read_from_python_numbers(program, python_calls):
    for alpha in (2.0, 3.5, -0.0, 1e-50, float("-inf")):
        np.testing.assert_array_equal(program.scaled(A[1:9], alpha), A[1:9] * np.float32(alpha))
    assert np.isnan(program.scaled(A[:8], float("nan"))).all()
    for by in (0, -32768, 32767, 5):
        expected = A.astype("i2") + np.int16(by)
        np.testing.assert_array_equal(program.shifted(A, by), expected)
    for by in (0.1, 1e300, 1e39):
        np.testing.assert_array_equal(program.wide(A, by), A.astype("f8") + by)
    for flag in (True, False, True):
        np.testing.assert_array_equal(program.chosen(A, flag), A if flag else -A)
    assert python_calls == ["scaled", "shifted", "wide", "chosen"]


def test_scalars_that_do_not_fit_are_refused(program):
    for _ in range(2):
        program.scaled(A, 2.0), program.shifted(A, 1), program.chosen(A, True)
        with pytest.raises(wia.ArgumentError, match="too large for f32"):
            program.scaled(A, 1e39)
        with pytest.raises(wia.ArgumentError, match="expected a number"):
            program.scaled(A, True)
        with pytest.raises(wia.ArgumentError, match="does not fit i16"):
            program.shifted(A, 32768)
        with pytest.raises(wia.ArgumentError, match="does not fit i16"):
            program.shifted(A, 1 << 80)
        with pytest.raises(wia.ArgumentError, match="whole number"):
            program.shifted(A, 1.5)
        with pytest.raises(wia.ArgumentError, match="True or False"):
            program.chosen(A, 1)


def test_the_largest_f32_is_a_scalar_and_the_next_number_is_none(program):
    largest = float(np.finfo(np.float32).max)
    program.scaled(A, 1.0)
    assert program.scaled(np.ones(16, np.float32), largest)[0] == np.float32(largest)
    with pytest.raises(wia.ArgumentError, match="too large for f32"):
        program.scaled(A, np.nextafter(largest, np.inf).item())


def test_other_numbers_go_through_python_and_are_read_there_once(program, monkeypatch):
    from wia_compiler.runtime import kernel as kernel_module

    read = kernel_module.read_arguments
    count = [0]

    def counting(*arguments):
        count[0] += 1
        return read(*arguments)

    monkeypatch.setattr(kernel_module, "read_arguments", counting)
    program.scaled(A, 2.0)
    others = (np.float32(3.0), np.float64(3.0), 3, np.array(3.0))
    for _ in range(3):
        for alpha in others:
            np.testing.assert_array_equal(program.scaled(A, alpha), A * 3)
    assert len(program.scaled._plans) == 1 and count[0] == 1 + len(others)


def test_defaults(program, python_calls):
    for _ in range(3):
        np.testing.assert_array_equal(program.scaled(A), A * 2)
    assert python_calls == ["scaled"]


def test_keywords(program, python_calls):
    program.add(A, A)
    for _ in range(2):
        np.testing.assert_array_equal(program.add(A, B=A + 1), A * 2 + 1)
        np.testing.assert_array_equal(program.add(B=A + 1, A=A), A * 2 + 1)
    out = np.empty_like(A)
    assert program.add(B=A, A=A, out=out) is out
    for wrong in ({"A": A}, {"B": A, "C": A}, {"X": A}):
        with pytest.raises(wia.ArgumentError):
            program.add(A, **wrong)


def test_out_is_written_in_place(program, python_calls):
    out = np.empty_like(A)
    for step in range(3):
        assert program.add(A, A + step, out=out) is out
        np.testing.assert_array_equal(out, A + A + step)
    pair = (np.empty_like(A), np.empty_like(A))
    for _ in range(3):
        results = program.both(A, out=pair)
        assert results[0] is pair[0] and results[1] is pair[1]
        np.testing.assert_array_equal(pair[0], A * 2)
    assert python_calls == ["add", "both"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.empty(16, np.float64),
        lambda: np.empty(17, np.float32),
        lambda: np.empty((4, 4), np.float32),
        lambda: np.broadcast_to(np.empty(1, np.float32), (16,)),
        lambda: [0.0] * 16,
        lambda: (np.empty(16, np.float32), np.empty(16, np.float32)),
    ],
)
def test_a_wrong_out_is_refused_after_a_right_one(program, make):
    program.add(A, A, out=np.empty_like(A))
    with pytest.raises(wia.ArgumentError):
        program.add(A, A, out=make())
    read_only = np.empty_like(A)
    read_only.flags.writeable = False
    with pytest.raises(wia.ArgumentError, match="read-only"):
        program.add(A, A, out=read_only)


def test_out_that_overlaps_an_input(program):
    memory = np.arange(17, dtype=np.float32)
    program.add(memory[:16], memory[:16], out=np.empty_like(A))
    expected = memory[:16] * 2
    program.add(memory[:16], memory[:16], out=memory[1:])
    np.testing.assert_array_equal(memory[1:], expected)
    turned = np.arange(32, dtype=np.float32)
    program.add(turned[15::-1], turned[15::-1], out=turned[16:])
    expected = turned[15::-1] * 2
    program.add(turned[15::-1], turned[15::-1], out=turned[:16])
    np.testing.assert_array_equal(turned[:16], expected)


def test_outs_that_overlap_each_other_are_refused(program):
    memory = np.empty(24, np.float32)
    program.both(A, out=(np.empty_like(A), np.empty_like(A)))
    with pytest.raises(wia.ArgumentError, match="overlap"):
        program.both(A, out=(memory[:16], memory[8:]))
    with pytest.raises(wia.ArgumentError):
        program.both(A, out=(memory[:16],))
    with pytest.raises(wia.ArgumentError):
        program.both(A, out=(memory[:16], None, None))


def test_inouts_are_updated(program, python_calls):
    d = np.zeros(16, np.float32)
    for step in range(1, 4):
        assert program.update(d, A) is d
        np.testing.assert_array_equal(d, A * step)
    e = A.copy()
    for _ in range(3):
        program.swap(d, e)
    np.testing.assert_array_equal(d, A)
    np.testing.assert_array_equal(e, A * 3)
    assert python_calls == ["update", "swap"]
    program.update(d, d)
    np.testing.assert_array_equal(d, A * 2)
    with pytest.raises(wia.ArgumentError, match="overlap"):
        program.swap(d, d)
    d.flags.writeable = False
    with pytest.raises(wia.ArgumentError, match="read-only"):
        program.update(d, A)


def test_a_strided_inout_is_updated_too(program):
    memory = np.zeros((16, 2), np.float32)
    for step in range(1, 3):
        program.update(memory[:, 1], A)
        np.testing.assert_array_equal(memory[:, 1], A * step)
    assert not memory[:, 0].any()


def test_unaligned_and_foreign_arrays(program):
    program.add(A, A)
    unaligned = np.zeros(A.nbytes + 1, np.uint8)[1:].view(np.float32)
    unaligned[...] = A

    class Own(np.ndarray):
        pass

    for other in (unaligned, A.astype(">f4"), A.view(Own), np.ma.masked_array(A).data):
        for _ in range(2):
            np.testing.assert_array_equal(program.add(other, A), A * 2)


def test_bound_arrays_are_looked_up_at_each_call(python_calls):
    bindings = {"w": A.copy()}
    text = "func @f(%x: tensor) -> tensor { %0 = add(%x, %w) return %0 }"
    kernel = wia.compile(text, bindings=bindings).f
    for step in range(4):
        bindings["w"] = A + step
        np.testing.assert_array_equal(kernel(A), A + A + step)
    assert python_calls == ["f"]
    bindings["w"] = A[:1]
    np.testing.assert_array_equal(kernel(A), A)
    del bindings["w"]
    with pytest.raises(wia.ArgumentError, match="gone"):
        kernel(A)


def test_a_failed_check_raises(program):
    at = np.array([3])
    for _ in range(3):
        assert program.gather_row(A, at)[0] == 3
        with pytest.raises(wia.OutOfRangeError, match="16"):
            program.gather_row(A, at + 13)


def test_results_own_memory_that_numpy_can_change(program):
    x = np.arange(40000, dtype=np.float32)
    for _ in range(2):
        result = program.add(x, x)
        result.resize(50000, refcheck=False)
        np.testing.assert_array_equal(result[:40000], x + x)
        result.resize(10, refcheck=False)
        np.testing.assert_array_equal(result, x[:10] * 2)
        result.sort()
        np.testing.assert_array_equal(np.sort(program.add(x, x))[-1], 79998)


def test_dead_results_make_room_for_new_ones(program):
    x = np.ones(1 << 18, np.float32)
    first = program.add(x, x)
    place = first.ctypes.data
    kept = first[7:9]
    del first
    second = program.add(x, x)
    assert second.ctypes.data != place  # a view keeps the memory
    del kept
    gc.collect()
    third = program.add(x, x)
    assert third.ctypes.data == place
    assert place % 64 == 0
    np.testing.assert_array_equal(second, x * 2)


@pytest.fixture
def pool():
    """take and give, with a limit of 1 MB, in a pool in which nothing waits."""
    library = native_library()
    take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(library.function("take"))
    give = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.function("give"))
    trim = ctypes.CFUNCTYPE(None)(library.function("trim"))
    limit = library.variable("pool_limit")
    before = limit.value
    trim()
    limit.value = 1 << 20
    yield take, give, library.variable("pool_waiting")
    trim()
    limit.value = before


def test_the_pool_is_bounded(pool):
    take, give, waiting = pool
    held = [take(1000 * step) for step in range(1, 200)]
    assert len(set(held)) == len(held) and not any(each % 64 for each in held)
    for each in held:
        give(each)
        assert waiting.value <= 1 << 20
    assert waiting.value > 0
    give(take(3 << 20))  # larger than all that may wait
    assert waiting.value <= 1 << 20


def test_a_buffer_comes_back_for_what_nearly_fills_it(pool):
    take, give, waiting = pool
    place = take(100_000)
    give(place)
    assert waiting.value >= 100_000
    smaller = take(60_000)
    assert smaller != place
    again = take(99_000)
    assert again == place and waiting.value == 0
    give(again), give(smaller)


def test_one_shelf_forgets_its_oldest_buffer(pool):
    take, give, waiting = pool
    steps = [1024 << step for step in (0, 1, 2)]
    held = [take(1100 + step) for step in range(12)]
    for each in held:
        give(each)
    assert [take(1100) for _ in range(8)] == held[:3:-1]
    assert waiting.value == 0
    for size in steps:
        give(take(size))
    assert waiting.value >= sum(steps)


def test_threads_share_kernels_and_pool(program):
    x = [np.full(size, size, np.float32) for size in (5, 5000, 50000)]
    for each in x:
        program.add(each, each), program.row(each.reshape(-1, 5))
    wrong: list[str] = []

    def work():
        for turn in range(300):
            each = x[turn % 3]
            if not (program.add(each, each) == 2 * each[0]).all():
                wrong.append("add")
            if abs(program.row(each.reshape(-1, 5)).sum() - len(each) / 5) > 0.01 * len(each):
                wrong.append("row")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_plan_in_use_outlives_its_table(program, monkeypatch):
    """Kinds that push each other's plans out while threads run them."""
    monkeypatch.setattr(native_callable, "MAX_PLANS", 1)
    sizes = (40_000, 50_000, 60_000)
    arrays = [np.full(size, size, np.float32) for size in sizes]
    wrong: list[int] = []

    def work(x):
        for _ in range(100):
            if program.add(x, x)[-1] != 2 * len(x):
                wrong.append(len(x))

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_references_balance(program):
    x = np.ones(2000, np.float32)
    out = np.empty_like(x)
    d = np.zeros_like(x)

    def refused():
        with pytest.raises(wia.ArgumentError):
            program.add(x)

    calls = [
        lambda: program.add(x, x),
        lambda: program.add(x, x, out=out),
        lambda: program.scaled(x, 2.5),
        lambda: program.both(x),
        lambda: program.update(d, x),
        refused,
    ]
    watched = [x, out, d, x.dtype, np.ndarray, True, *[each for each in program.add._plans]]
    for call in calls:
        call(), call()
        counts = [sys.getrefcount(each) for each in watched]
        for _ in range(50):
            call()
        after = [sys.getrefcount(each) for each in watched]
        assert all(abs(a - b) < 20 for a, b in zip(after, counts, strict=True)), call


def test_builds_take_plans_too(program, monkeypatch):
    build = program.add.build(A, A)
    build(A, A)
    monkeypatch.setattr(wia.Build, "_call_in_python", None)
    np.testing.assert_array_equal(build(A + 1, A), A * 2 + 1)
    monkeypatch.undo()
    np.testing.assert_array_equal(build(A[::-1], A), A[::-1] + A)
    with pytest.raises(wia.ArgumentError, match="this was built for"):
        build(A[:8], A[:8])


def test_a_forked_child_calls_on():
    script = f"""
import os, numpy as np, wia_compiler as wia
add = wia.compile({PROGRAM!r}).add
x = np.ones(100000, np.float32)
for _ in range(3): add(x, x)
child = os.fork()
if child == 0:
    os._exit(0 if add(x, x)[-1] == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


def test_an_unknown_interpreter_calls_in_python(program, monkeypatch):
    monkeypatch.setattr(native_callable, "_takes_code", lambda kind: False)
    for _ in range(3):
        np.testing.assert_array_equal(program.add(A, A), A * 2)
    assert not program.add._plans and len(program.add._fast) == 1


def test_every_way_to_call_leads_to_the_same(program, python_calls):
    program.add(A, A)
    expected = A * 2
    arrays, named = (A, A), {"out": np.empty_like(A)}
    np.testing.assert_array_equal(program.add(*arrays), expected)
    np.testing.assert_array_equal(functools.partial(program.add, A)(A), expected)
    np.testing.assert_array_equal(next(map(program.add, [A], [A])), expected)
    np.testing.assert_array_equal(program.add.__call__(A, A), expected)
    assert program.add(*arrays, **named) is named["out"]
    assert inspect.signature(program.add).parameters.keys() == {"A", "B", "out"}


def test_a_class_with_a_call_of_its_own_keeps_it(program):
    class Doubling(wia.Build):
        def __call__(self, *arrays, **keywords):
            return 2 * super().__call__(*arrays, **keywords)

    class Same(wia.Build):
        pass

    build = program.add.build(A, A)
    for made, factor in ((Doubling, 4), (Same, 2)):
        own = made(build._unit, build._loaded, build.cache, build._session)
        for _ in range(3):
            np.testing.assert_array_equal(own(A, A), factor * A)
