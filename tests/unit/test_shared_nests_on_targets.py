"""One nest with several calls on every target: results, launches, lines of each call."""

import numpy as np
import pytest
import wia_compiler as wia
from unit import tpu_kernels
from unit.gpu_programs import build, interpret, scheduled
from wia_compiler.backends.gpu.lower import dense_arguments
from wia_compiler.dialects.text import parse_ir

RNG = np.random.default_rng(5)
CHAIN = """kernel chain(input x: tensor, input w: tensor, output y: tensor) {
    let a = relu(x @ w);
    let b = relu(a @ w);
    let c = softmax(b, dim=1);
    let d = relu(c @ w);
    let e = softmax(d, dim=1);
    y = relu(e @ w);
}"""
PRODUCTS = """kernel products(input x: tensor, input w: tensor, output y: tensor) {
    let a = x @ w;
    let b = a @ w;
    let c = b @ w;
    y = c @ w;
}"""


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def chain(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    x, w = x.astype(np.float64), w.astype(np.float64)
    layer = lambda h: np.maximum(h @ w, 0)  # noqa: E731
    return layer(softmax(layer(softmax(layer(layer(x))))))


def products(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ np.linalg.matrix_power(w.astype(np.float64), 4)


@pytest.mark.parametrize("size", [1, 3, 17, 64, 127])
def test_cpu(size: int):
    x, w = normal(size, size), normal(size, size)
    built = wia.compile(CHAIN)["chain"].build(x, w)
    np.testing.assert_allclose(built(x, w), chain(x, w), rtol=2e-5, atol=2e-6)


def test_cpu_code_is_made_once():
    x, w = normal(40, 40), normal(40, 40)
    once = wia.compile(PRODUCTS.replace("b @ w", "b + w").replace("c @ w", "c + w"))["products"]
    built = wia.compile(PRODUCTS)["products"].build(x, w)
    np.testing.assert_allclose(built(x, w), products(x, w), rtol=2e-5, atol=2e-6)
    assert built.resources["code_bytes"] < 1.2 * once.build(x, w).resources["code_bytes"]


def test_cpu_calls_have_the_buffers_that_a_large_nest_needs():
    # Rows of sums beyond what the stack may hold lie in the workspace.
    text = PRODUCTS.replace("x @ w", "softmax(x, dim=1)").replace("a @ w", "softmax(a, dim=1)")
    x, w = normal(3, 9000), normal(9000, 9000)[:1, :1]
    text = text.replace("b @ w", "softmax(b, dim=1)").replace("c @ w", "c * w")
    built = wia.compile(text)["products"].build(x, w)
    wanted = softmax(softmax(softmax(x.astype(np.float64)))) * w
    np.testing.assert_allclose(built(x, w), wanted, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 17, 64])
def test_gpu(size: int):
    x, w = normal(size, size), normal(size, size)
    for compute in (interpret, scheduled):
        (y,) = compute(CHAIN, [x, w])
        np.testing.assert_allclose(y, chain(x, w), rtol=2e-5, atol=2e-6)


def test_gpu_launches_one_entry_several_times():
    x, w = normal(32, 32), normal(32, 32)
    compiled = build(PRODUCTS, [x, w], "sm_90")
    launches = compiled.artifact.metadata["launches"]
    assert [launch["entry"] for launch in launches] == ["products_kernel"] * 4
    assert [launch["buffers"] for launch in launches] == [
        [0, 1, 3],
        [3, 1, 4],
        [4, 1, 5],
        [5, 1, 2],
    ]
    assert len(compiled.artifact.metadata["workspace_bytes"]) == 3
    assert compiled.artifact.assembly["ptx"].count(".visible .entry") == 1
    resources = compiled.artifact.resources
    assert resources["kernels"] == 4
    entries = resources.get("entries", {})
    assert all(entry["launches"] == 4 for entry in entries.values())


def test_gpu_lines_of_the_entry_lead_to_every_call():
    x, w = normal(32, 32), normal(32, 32)
    ptx = build(PRODUCTS, [x, w], "sm_90").trace.stage("ptx")
    lines = {number: text for number, text in enumerate(ptx.text.split("\n"), start=1)}
    products = [n for n, text in lines.items() if "fma.rn.f32" in text]
    assert products
    for number in products:
        assert {span.line for span in ptx.line_spans[number]} == {2, 3, 4, 5}


@pytest.mark.parametrize("order", ["x, t", "t, x"])
def test_gpu_arrays_are_aligned_only_if_every_call_passes_aligned_ones(order: str):
    strided = "memref<8x8xf32, strided<[1, 8]>>"
    first, second = order.split(", ")
    module = parse_ir(f"""
func.func @k(%x: {strided}, %y: memref<8x8xf32>) attributes {{wia.host}} {{
  %h = memref.alloc() : memref<8x8xf32>
  %t = memref.reinterpret_cast %h to offset: [0], sizes: [8, 8], strides: [1, 8]
    : memref<8x8xf32> to {strided}
  func.call @f(%{first}, %h) : ({strided}, memref<8x8xf32>) -> ()
  func.call @f(%{second}, %y) : ({strided}, memref<8x8xf32>) -> ()
  func.return
}}
func.func @f(%a: {strided}, %b: memref<8x8xf32>) attributes {{wia.nest}} {{
  func.return
}}""")
    assert dense_arguments(module) == {"f": (False, True)}


@pytest.mark.parametrize("size", [1, 17, 130])
def test_tpu(size: int):
    x, w = normal(size, size), normal(size, size)
    (y,) = tpu_kernels.run_text(PRODUCTS, x=x, w=w).outputs
    held = x
    for _ in range(4):
        held = tpu_kernels.product(held, w).astype(np.float32)
    np.testing.assert_allclose(y, held, rtol=2e-2, atol=2e-2)


def test_tpu_instructions_of_a_call_lead_to_its_line():
    x, w = normal(130, 130), normal(130, 130)
    compiled = tpu_kernels.compile_text(PRODUCTS, x=x, w=w)
    stage = compiled.trace.stage("tpu")
    found = [
        {span.line for span in stage.line_spans[number]}
        for number, text in enumerate(stage.text.split("\n"), start=1)
        if "systolic_execute" in text
    ]
    assert found == [{2}, {3}, {4}, {5}]
    said = [text.strip() for text in stage.text.split("\n") if text.lstrip().startswith("//")]
    assert said == [
        f"// {line} | {PRODUCTS.splitlines()[line - 1].strip()}" for line in (2, 3, 4, 5)
    ]


def test_tpu_instructions_come_from_their_call_and_from_the_shared_nest():
    x, w = normal(130, 130), normal(130, 130)
    trace = tpu_kernels.compile_text(PRODUCTS, x=x, w=w).trace
    schedule, lower = trace.stage("schedule"), trace.stage("lower")
    calls = [row.id for row in schedule.ops if row.name == "func.call"]
    (contract,) = [row.id for row in schedule.ops if row.label == "contract"]
    passes = [row for row in lower.ops if row.name == "tpu.systolic_execute"]
    assert [[id for id in row.origins if id in calls] for row in passes] == [[id] for id in calls]
    assert all(contract in row.origins for row in passes)
