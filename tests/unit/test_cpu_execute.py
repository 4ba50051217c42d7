"""Loaded code: how it is called, and what a call may rely on."""

import ctypes
import sys
import threading
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray
from wia_compiler.backends.cpu import execute
from wia_compiler.backends.cpu.elf import check_symbols, code_size, undefined_symbols
from wia_compiler.backends.cpu.execute import CpuExecutable
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.backends.cpu.target import make_target, targets
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker

Array = NDArray[Any]

TWICE = "kernel twice(input x: tensor, output y: tensor) { y = x + x; }"
# Two matrix products: the first result lives in the workspace.
CHAIN = "kernel chain(input a: tensor, input b: tensor, output c: tensor) { c = (a @ b) @ b; }"


def executable(text: str, *arrays: Array) -> CpuExecutable:
    (kernel,) = wia.compile(text).values()
    target = make_target("cpu")
    return target.load(kernel.build(*arrays)._loaded.built.artifact)


def test_a_call_writes_its_outputs_in_place() -> None:
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    counters = executable(TWICE, x)([x], [y])
    assert y.tolist() == [0, 2, 4, 6, 8]
    assert dict(counters) == {}


def test_subclasses_and_views_of_arrays_are_read_where_they_lie() -> None:
    x = np.arange(10, dtype=np.float32)
    run = executable(TWICE, x[5:])
    for given in (x[5:], x[5:].view(np.matrix)[0].A1, np.ma.masked_array(x[5:])):
        y = np.zeros(5, np.float32)
        run((given,), (y,))
        assert y.tolist() == [10, 12, 14, 16, 18]


def test_the_slow_way_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "fast_caller", lambda address, buffers: None)
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    executable(TWICE, x)([x], [y])
    assert y.tolist() == [0, 2, 4, 6, 8]


def test_the_entry_takes_an_array_of_pointers() -> None:
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    run = executable(TWICE, x)
    pointers = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    run.entry_function(pointers)
    assert y.tolist() == [0, 2, 4, 6, 8]
    assert run.workspace_bytes == 0
    assert run.entry_address


def test_calls_from_several_threads_do_not_share_a_workspace() -> None:
    random = np.random.default_rng(0)
    inputs = [(random.normal(size=(60, 60)), random.normal(size=(60, 60))) for _ in range(4)]
    run = executable(CHAIN, *inputs[0])
    assert run.workspace_bytes >= 60 * 60 * 8
    wrong: list[int] = []

    def work(number: int) -> None:
        a, b = inputs[number]
        for _ in range(50):
            c = np.empty((60, 60))
            run((a, b), (c,))
            if not np.allclose(c, a @ b @ b):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_keep_no_reference() -> None:
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    run = executable(TWICE, x)
    before = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(True)
    for _ in range(100):
        run((x,), (y,))
    after = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(True)
    assert all(abs(one - other) < 10 for one, other in zip(before, after, strict=True))


def object_of(text: str) -> bytes:
    request = CodeRequest(text, this_host().triple, "", outputs=("object",))
    return shared_worker().generate(request).object


def test_symbols_that_the_loader_might_not_find_are_refused() -> None:
    harmless = object_of(
        "declare double @fmod(double, double)\n"
        "define double @f(double %x) {\n"
        "%y = call double @fmod(double %x, double 3.0)\n ret double %y }"
    )
    assert undefined_symbols(harmless) == ["fmod"]
    assert 5 < code_size(harmless) < 100
    check_symbols(harmless, this_host().triple)
    # Without F16C, LLVM converts by a call that no module declares.
    helper = object_of("define half @f(double %x) { %y = fptrunc double %x to half\n ret half %y }")
    assert undefined_symbols(helper) == ["__truncdfhf2"]
    with pytest.raises(TargetError, match="__truncdfhf2"):
        check_symbols(helper, this_host().triple)


def test_other_objects_are_no_elf() -> None:
    with pytest.raises(ValueError, match="ELF64"):
        undefined_symbols(b"MZ\x90\x00")


def test_the_folder_lists_its_target() -> None:
    assert targets()[0] == "cpu" and {"cpu:haswell", "cpu:neoverse-n1"} <= set(targets())
    target = make_target("cpu")
    assert target.facts.register_capacity == this_host().vector_registers * (
        this_host().vector_bytes // 4
    )
    assert this_host().name in target.options
    with pytest.raises(TargetError, match="CPUs are: cpu, cpu:haswell"):
        make_target("cpu:other")
