"""Loops over elements as leaves: which become some, and that results stay those of the text."""

import numpy as np
import pytest
import wia_compiler as wia
from loop_kernels import LOCAL, MATMUL, TILED, floats
from loop_running import kernel_of, run_all
from wia_compiler.dialects.text import parse_ir
from wia_compiler.dialects.tile import ComputeOp

SIZES = [(1, 1, 1), (3, 17, 5), (17, 33, 9)]


def leaves(text: str, *shapes: tuple[int, ...], dtype: str = "f32") -> list[ComputeOp]:
    """The leaves of the nests of a text, those that only fill an array left out."""
    build = kernel_of(text).build(*(wia.spec(shape, dtype) for shape in shapes))
    module = parse_ir(build.stage("loops").text)
    found = [op for op in module.walk() if isinstance(op, ComputeOp)]
    assert found or "scf" in build.stage("loops").text
    return found


def told(text: str, *shapes: tuple[int, ...]) -> list[tuple[bool, str]]:
    """What the decisions say of raising the nests of a text."""
    build = kernel_of(text).build(*(wia.spec(shape, "f32") for shape in shapes))
    return [(d.taken, d.reason) for d in build.trace.decisions if d.kind == "raise"]


def test_a_product_is_the_nest_of_a_tensor_product() -> None:
    """All but for the order of its sum: the same loops, buffers, leaves and maps."""
    shapes = (4, 5), (5, 6)
    tensor = "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
    mine, other = leaves(MATMUL, *shapes), leaves(tensor, *shapes)
    assert [leaf.kind.data for leaf in mine] == ["map", "contract", "map"]
    for one, two in zip(mine, other, strict=True):
        assert one.maps == two.maps and one.axes == two.axes and one.extents == two.extents
        assert one.reduce_axes == two.reduce_axes
    assert mine[1].is_ordered and not other[1].is_ordered


ORDERS = {
    "i, j, k in memory": "for i in 0..M { for j in 0..N { for k in 0..K { BODY } } }",
    "i, k, j": "for i in 0..M { for k in 0..K { for j in 0..N { BODY } } }",
    "k, i, j": "for k in 0..K { for i in 0..M { for j in 0..N { BODY } } }",
}


@pytest.mark.parametrize("loops", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("sizes", SIZES)
def test_products_in_any_order_of_loops(loops: str, sizes: tuple[int, int, int]) -> None:
    body = loops.replace("BODY", "C[i, j] += A[i, k] * B[k, j];")
    text = f"""kernel k(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>,
                        output C: tensor<M, N, f32>) {{ {body} }}"""
    m, n, k = sizes
    a = floats(m, k)
    a[0, 0] = np.inf
    run_all(text, a, floats(k, n))
    (leaf,) = [leaf for leaf in leaves(text, (4, 5), (5, 6)) if leaf.folds]
    assert leaf.kind.data == "contract" and leaf.is_ordered


@pytest.mark.parametrize("text", [TILED, LOCAL], ids=["min bounds", "local tensors"])
@pytest.mark.parametrize("sizes", [(8, 8, 8), (9, 13, 5), (17, 33, 20)])
def test_tiles_of_the_text_are_tiles_of_leaves(text: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    run_all(text, floats(m, k), floats(k, n))
    found = leaves(text, (9, 13), (13, 9))
    assert {"contract", "map"} <= {leaf.kind.data for leaf in found}
    (product,) = [leaf for leaf in found if leaf.folds]
    assert min(product.sizes[:2]) >= 4 and product.limit_values  # a tile, ragged at the edges


def test_three_levels_of_tiles() -> None:
    text = """
    kernel k(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor<M, N, f32>) {
        for ii in 0..M step 8 { for jj in 0..N step 8 { for kk in 0..K step 8 {
            for i in ii..min(ii + 8, M) { for j in jj..min(jj + 8, N) {
                let s = C[i, j];
                for k in kk..min(kk + 8, K) { s += A[i, k] * B[k, j]; }
                C[i, j] = s;
            } }
        } } }
    }"""
    run_all(text, floats(17, 9), floats(9, 20))
    build = kernel_of(text).build(wia.spec((16, 16), "f32"), wia.spec((16, 16), "f32"))
    loops = build.stage("loops").text
    for axis in "ijk":
        assert f'axis "{axis}.0"' in loops and f"{axis} = 8" in loops
    assert "wia.ordered" in loops


ROWS = """kernel norm(input x: tensor<M, N, f32>, output y: tensor<M, N, f32>) {
    for i in 0..M {
        let s = 0.0;
        for j in 0..N { s += x[i, j]; }
        let mean = s / cast(N, f32);
        let v = 0.0;
        for j in 0..N { let d = x[i, j] - mean; v += d * d; }
        let scale = 1.0 / sqrt(v / cast(N, f32) + 1e-5);
        for j in 0..N { y[i, j] = (x[i, j] - mean) * scale; }
    }
}"""


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (5, 127)])
def test_rows(shape: tuple[int, int]) -> None:
    run_all(ROWS, floats(*shape))
    run_all(ROWS, floats(*shape[::-1]).T)
    kinds = [leaf.kind.data for leaf in leaves(ROWS, (5, 7))]
    assert kinds == ["map", "reduce", "map", "map", "reduce", "map", "map"]


OTHERS = {
    "a stencil": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 1..M - 1 { for j in 1..N - 1 {
            C[i, j] = 0.2 * (A[i, j] + A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]);
        } } }""",
    "a filter": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N - 2 {
            let s = 0.0;
            for t in 0..3 { s += A[i, j + t] * A[0, t]; }
            C[i, j] = s;
        } } }""",
    "steps": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N step 2 { C[i, j] = -A[i, j]; } } }""",
    "a choice": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N {
            if (A[i, j] > 0.0) { C[i, j] = A[i, j]; } else { C[i, j] = A[i, j] * 0.1; }
        } } }""",
    "a sum of some": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, f32>) {
        for i in 0..M {
            let s = 0.0;
            let p = 1.0;
            for j in 0..N { if (A[i, j] > 0.0) { s += A[i, j]; p *= A[i, j]; } else { s += 0.5; } }
            C[i] = s * p;
        } }""",
    "written where a branch says": """
    kernel k(input A: tensor<M, N, f32>, inout C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N { if (A[i, j] > 0.0) { C[i, j] = A[i, j]; } } } }""",
    "positions": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N { C[i, j] = A[i, j] * cast(i * 2 + j, f32); } } }""",
    "several results": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>,
                                output s: tensor<M, f32>, output m: tensor<M, f32>) {
        for i in 0..M {
            let t = 0.0;
            let u = A[i, 0];
            for j in 0..N { let e = exp(A[i, j]); C[i, j] = e; t += e; u = max(u, e); }
            s[i] = t;
            m[i] = u;
        } }""",
    "what was just stored": """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N { C[i, j] = A[i, j]; C[i, j] = C[i, j] + C[i, j]; } } }""",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 17), (9, 40)])
def test_what_else_becomes_leaves(text: str, shape: tuple[int, int]) -> None:
    a = floats(*shape)
    a[1, 2] = np.nan
    arrays = [a, floats(*shape)] if "inout" in text else [a]
    run_all(text, *arrays, exact="exp" not in text)
    assert all(taken for taken, _ in told(text, *(array.shape for array in arrays)))


def test_zeros_keep_their_signs() -> None:
    """What a branch leaves out of a sum changes no bit of it: -0 + nothing is -0."""
    text = """kernel k(input A: tensor<N, f32>, output s: f32, output p: f32) {
        let t = -0.0;
        let u = -0.0;
        for i in 0..N { if (A[i] > 0.0) { t += A[i]; u -= A[i]; } }
        s = t;
        p = u;
    }"""
    results = run_all(text, np.array([-1, -2, -3], np.float32))
    assert all(np.signbit(each) for each in results)
    assert [taken for taken, _ in told(text, (3,))] == [True]


STAYS = {
    "carries": ("for i in 1..N { C[i] = C[i - 1] + A[i]; }", "C is read and written in a fold"),
    "recurrence": (
        "let s = 0.0; for i in 0..N { s = s * 0.5 + A[i]; } C[0] = s;",
        "s is carried from one iteration to the next, and is no fold",
    ),
    "each step": (
        "let s = 0.0; for i in 0..N { s += A[i]; C[i] = s; }",
        "s is used at each of its steps",
    ),
    "overlap": (
        "for i in 0..N - 1 { C[i] = A[i]; C[i + 1] = A[i]; }",
        "C is written at several places of a loop that runs in order",
    ),
    "while": (
        "for i in 0..N { let x = A[i]; while (x > 1.0) { x *= 0.5; } C[i] = x; }",
        "it holds a while loop",
    ),
    "checked": ("for i in 0..N { C[i] = A[cast(A[i], i64)]; }", "it holds a check"),
    "triangle": (
        "for i in 0..N { let s = 0.0; for j in 0..i + 1 { s += A[j]; } C[i] = s; }",
        "loop j ends at i + 1, which is no fixed size",
    ),
}


@pytest.mark.parametrize(("body", "reason"), STAYS.values(), ids=STAYS)
def test_what_stays_point_code_and_why(body: str, reason: str) -> None:
    text = f"kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {{ {body} }}"
    assert told(text, (9,)) == [(False, reason)]
    run_all(text, np.abs(floats(9)) % 8)


def test_loops_side_by_side_are_nests_of_their_own() -> None:
    text = """
    kernel k(input A: tensor<N, f32>, output B: tensor<N, f32>, output C: tensor<N, f32>) {
        for i in 0..N { B[i] = A[i] * 2.0; }
        for i in 0..N { C[i] = B[N - 1 - i]; }
    }"""
    build = kernel_of(text).build(wia.spec((9,), "f32"))
    nests = [d.candidate for d in build.trace.decisions if d.kind == "raise" and d.taken]
    assert nests == ["k_nest", "k_nest_1"]
    run_all(text, floats(9))


@pytest.mark.parametrize("dtype", ["f8", "i4", "i1", "u1"])
def test_other_dtypes(dtype: str) -> None:
    a = (floats(5, 33) * 9).astype(dtype)
    name = {"f8": "f64", "i4": "i32", "i1": "i8", "u1": "u8"}[dtype]
    text = f"""kernel k(input A: tensor<M, N, {name}>, output C: tensor<M, {name}>) {{
        for i in 0..M {{ let s = A[i, 0]; for j in 1..N {{ s += A[i, j]; }} C[i] = s; }} }}"""
    run_all(text, a)
    (fold,) = [leaf for leaf in leaves(text, (5, 33), dtype=name) if leaf.folds]
    assert fold.is_ordered == (dtype == "f8")  # whole numbers wrap in any order


def test_a_narrow_sum_rounds_at_every_step() -> None:
    text = """kernel k(input A: tensor<N, f16>, output s: f16) {
        let t: f16 = 0.0;
        for i in 0..N { t += A[i]; }
        s = t;
    }"""
    (result,) = run_all(text, np.full(300, 0.1, np.float16))
    assert result != np.float16(30)


def test_an_ordered_sum_refuses_to_be_added_in_another_order() -> None:
    text = """kernel k(input A: tensor<M, K, R, f32>, output C: tensor<M, f32>) {
        for i in 0..M {
            let s = 0.0;
            for k in 0..K { for r in 0..R { s += A[i, k, r]; } }
            C[i] = s;
        } }"""
    kernel, a = kernel_of(text), floats(3, 8, 8)
    first = kernel.build(a, schedule="schedule k { tile k 4; }")
    np.testing.assert_array_equal(first(a), wia.reference(kernel, a))
    with pytest.raises(wia.CompileError, match="goes over k first"):
        kernel.build(a, schedule="schedule k { tile r 4; }")
    several = kernel.build(a, schedule="schedule k { accumulators r 4; }")
    np.testing.assert_allclose(several(a), wia.reference(kernel, a), rtol=1e-4, atol=1e-5)


def test_a_gpu_adds_in_the_order_of_the_text() -> None:
    for text, arrays in (
        (MATMUL, (floats(33, 16), floats(16, 20))),
        (MATMUL, (floats(33, 7), floats(7, 20))),
        (ROWS, (floats(5, 40),)),
    ):
        kernel = kernel_of(text)
        result = kernel.to("gpu:sm_90")(*arrays)
        np.testing.assert_array_equal(result, wia.reference(kernel, *arrays))
