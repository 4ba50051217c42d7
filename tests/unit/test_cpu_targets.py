"""Code for other CPUs: compiled and read anywhere, run where this machine or an emulator can."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray
from wia_compiler.backends.cpu.cpus import CPUS
from wia_compiler.backends.cpu.host import named_host, this_host, why_not_here

AARCH64 = [name for name, cpu in CPUS.items() if cpu.machine == "aarch64"]
X86 = [name for name, cpu in CPUS.items() if cpu.machine == "x86_64"]
PRODUCT = "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = relu(a @ b); }"
FUNCTIONS = """kernel k(input x: tensor, output y: tensor) {
    y = exp(x) + tanh(x) * erf(x) - log(abs(x) + 1) + sin(x) * cos(x); }"""
LOOPS = """kernel k(input x: tensor<N, f32>, input p: tensor<N, i32>, output y: tensor<N, f32>) {
    let s = 0.0;
    for i in 0..N { if (x[p[i]] > 0.0) { s += x[p[i]]; } y[i] = s; } }"""
KERNELS: dict[str, tuple[str, list[tuple[tuple[int, ...], str]]]] = {
    "product": (PRODUCT, [((17, 127), "f32"), ((127, 33), "f32")]),
    "product of f64": (PRODUCT, [((5, 19), "f64"), ((19, 7), "f64")]),
    "product of bytes": (
        """kernel k(input a: tensor, input b: tensor, output c: tensor) {
            c = matmul(cast(a, i32), cast(b, i32)); }""",
        [((9, 70), "i8"), ((70, 21), "i8")],
    ),
    "half weights": (
        """kernel k(input a: tensor, input b: tensor, output c: tensor) {
            c = a @ cast(b, f32); }""",
        [((3, 40), "f32"), ((40, 37), "f16")],
    ),
    "softmax": (
        "kernel k(input x: tensor, output y: tensor) { y = softmax(x); }",
        [((7, 127), "f32")],
    ),
    "norm": (
        "kernel k(input x: tensor, output y: tensor) { y = layer_norm(x); }",
        [((5, 100), "bf16")],
    ),
    "functions": (FUNCTIONS, [((1000,), "f32")]),
    "functions of f64": (FUNCTIONS, [((131,), "f64")]),
    "convolution": (
        """kernel k(input x: tensor, input w: tensor, output y: tensor) {
            y = conv2d(x, w, padding=1); }""",
        [((1, 3, 9, 11), "f32"), ((5, 3, 3, 3), "f32")],
    ),
    "pool": (
        "kernel k(input x: tensor, output y: tensor) { y = max_pool(x, 3, stride=2); }",
        [((1, 4, 17, 17), "f32")],
    ),
    "sum": (
        "kernel k(input x: tensor, output y: tensor) { y = reduce_sum(x); }",
        [((1003,), "f32")],
    ),
    "attention": (
        "kernel k(input q: tensor, output y: tensor) { y = attention(q, q, q); }",
        [((2, 37, 24), "f32")],
    ),
    "loops": (LOOPS, [((129,), "f32"), ((129,), "index")]),
}


def arrays_for(specs: list[tuple[tuple[int, ...], str]]) -> list[NDArray]:
    """Normal numbers, among them infinities and NaN where nothing is summed; indices in range."""
    rng = np.random.default_rng(0)
    made: list[NDArray] = []
    for shape, dtype in specs:
        if dtype == "index":
            made.append(rng.integers(0, shape[0], shape).astype(np.int32))
        elif dtype == "i8":
            made.append(rng.integers(-128, 128, shape).astype(np.int8))
        else:
            made.append(rng.normal(size=shape).astype(wia.spec(shape, dtype).dtype.numpy))
    return made


def check(found: NDArray, wanted: NDArray) -> None:
    """Equal within what the order of a sum changes; integers to the bit."""
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
        return
    tolerance = {8: 1e-13, 4: 1e-5, 2: 2e-2}[wanted.dtype.itemsize]
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("name", KERNELS)
def test_an_emulated_aarch64_computes_what_the_reference_does(name: str) -> None:
    machine = pytest.importorskip("aarch64_machine", reason="unicorn is not installed")
    text, specs = KERNELS[name]
    kernel = wia.compile(text)["k"]
    arrays = arrays_for(specs)
    build = kernel.to("cpu:neoverse-n1").build(*arrays)
    assert build.formats == ["llvm", "aarch64"]
    wanted = wia.reference(kernel, *arrays)
    found = np.full(wanted.shape, 7).astype(wanted.dtype)
    machine.run_on_aarch64(build.artifact, arrays, [found])
    check(found, wanted)


def test_threads_share_a_loop_on_aarch64_too() -> None:
    machine = pytest.importorskip("aarch64_machine", reason="unicorn is not installed")
    kernel = wia.compile(PRODUCT)["k"]
    a, b = arrays_for(KERNELS["product"][1])
    schedule = "schedule k { tile i 8, j 16; parallel i.0, j.0; }"
    build = kernel.to("cpu:neoverse-n1").build(a, b, schedule=schedule)
    assert "bl      wia_parallel" in build.assembly("aarch64")
    found = np.zeros((17, 33), np.float32)
    machine.run_on_aarch64(build.artifact, [a, b], [found])
    check(found, np.maximum(a @ b, 0))


@pytest.mark.parametrize("cpu", X86)
def test_code_of_older_cpus_runs_on_newer_ones(cpu: str) -> None:
    """Where a feature is missing, the error names it."""
    kernel = wia.compile(PRODUCT)["k"]
    a, b = arrays_for(KERNELS["product"][1])
    build = kernel.to(f"cpu:{cpu}").build(a, b)
    widest = CPUS[cpu].vector_bytes * 8
    assert build.resources["vector_bits"] == widest
    assert ("zmm" in build.assembly("x86")) == (widest == 512)
    reason = why_not_here(named_host(cpu))
    if reason is None:
        check(build(a, b), wia.reference(kernel, a, b))
    else:
        with pytest.raises(wia.TargetError, match=r"does not run here: this .* lacks"):
            build(a, b)


@pytest.mark.skipif(why_not_here(named_host("haswell")) is not None, reason="no AVX2 here")
@pytest.mark.parametrize("name", KERNELS)
def test_code_for_avx2_computes_what_the_reference_does(name: str) -> None:
    text, specs = KERNELS[name]
    kernel = wia.compile(text)["k"]
    arrays = arrays_for(specs)
    build = kernel.to("cpu:haswell").build(*arrays)
    assert "zmm" not in build.assembly("x86")
    check(build(*arrays), wia.reference(kernel, *arrays))


@pytest.mark.parametrize("cpu", AARCH64)
def test_products_keep_their_sums_in_neon_registers(cpu: str) -> None:
    kernel = wia.compile(PRODUCT)["k"].to(f"cpu:{cpu}")
    build = kernel.build(wia.spec((64, 64), "f32"), wia.spec((64, 64), "f32"))
    lines = build.assembly("aarch64").splitlines()
    sums = {line.split()[1] for line in lines if line.split()[:1] == ["fmla"]}
    assert len(sums) >= 12 and all(each.endswith(".4s,") for each in sums)
    if cpu == "apple-m1":  # macOS clears it when it likes
        assert "x18" not in build.assembly("aarch64")
    assert "fmax" in build.assembly("aarch64")  # relu is one instruction, NaN and all
    if this_host().machine == "x86_64":
        a = np.ones((64, 64), np.float32)
        with pytest.raises(wia.TargetError, match="aarch64 code and this machine is x86_64"):
            build(a, a)


def test_every_row_of_the_table_is_a_cpu_that_llvm_knows() -> None:
    """An unknown name or feature would only be a warning, and code for a generic CPU."""
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]

    llvm.initialize_all_targets()
    for cpu in CPUS.values():
        host = named_host(cpu.name)
        target = llvm.Target.from_triple(host.triple)
        assert target.create_target_machine(cpu=cpu.name, features=host.features)
        assert host.machine == cpu.machine and host.caches.l1 <= host.caches.l2
        assert host.vector_registers == 32 or cpu.vector_bytes < 64


def test_builds_for_two_cpus_do_not_share_an_entry_of_the_cache() -> None:
    kernel = wia.compile(PRODUCT)["k"]
    spec = wia.spec((40, 40), "f32")
    texts = [kernel.to(f"cpu:{name}").build(spec, spec).assembly("x86") for name in X86[:2] * 2]
    assert texts[0] == texts[2] and texts[1] == texts[3]
