"""The simulator on texts: numbers, memories, counters."""

import ml_dtypes
import numpy as np
import pytest
from unit.tpu_programs import matmul_text, systolic_matmul
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.tpu import run

rng = np.random.default_rng(5)


def arrays(m: int, n: int, k: int, dtype=np.float32) -> dict[str, np.ndarray]:
    return {
        "A": rng.standard_normal((m, k)).astype(dtype),
        "B": rng.standard_normal((k, n)).astype(dtype),
        "C": np.full((m, n), 7, dtype),
    }


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (2, 3, 129), (4, 130, 17)])
def test_a_matmul_is_exact_to_the_bit(m, n, k) -> None:
    given = arrays(m, n, k)
    run(matmul_text(m, n, k), given)
    np.testing.assert_array_equal(given["C"], systolic_matmul(given["A"], given["B"]))


@pytest.mark.parametrize("size", [1, 3, 17, 127, 129, 1000])
def test_odd_sizes_agree_with_a_f64_product_of_bf16_operands(size) -> None:
    given = arrays(size, 130, size)
    run(matmul_text(size, 130, size), given)
    left, right = (given[name].astype(ml_dtypes.bfloat16).astype(np.float64) for name in "AB")
    # Sequential f32 sums: the error grows with the number of terms, times the sum of magnitudes.
    bound = (size + 2) * 2.0**-24 * (np.abs(left) @ np.abs(right))
    assert (np.abs(given["C"] - left @ right) <= bound).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_outputs_are_rounded_once_to_their_dtype(dtype) -> None:
    given = arrays(5, 6, 200, DTYPES[dtype].numpy)
    run(matmul_text(5, 6, 200, dtype), given)
    wide = systolic_matmul(given["A"], given["B"])
    np.testing.assert_array_equal(given["C"], wide.astype(DTYPES[dtype].numpy))


def test_inputs_are_rounded_to_bf16_ties_to_even() -> None:
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), 3.4e38], np.float32)
    given = {"A": values[:, None].copy(), "B": np.ones((1, 1), np.float32)}
    given["C"] = np.empty((4, 1), np.float32)
    run(matmul_text(4, 1, 1), given)
    expected = [1, 1 + 2**-6, -1, np.float32(ml_dtypes.bfloat16(3.4e38))]
    np.testing.assert_array_equal(given["C"][:, 0], np.array(expected, np.float32))


def test_nan_and_infinity_pass_through_and_padding_adds_none() -> None:
    given = arrays(3, 3, 3)
    given["A"][0, 0], given["A"][1, 1] = np.nan, np.inf
    given["B"][:] = 1
    run(matmul_text(3, 3, 3), given)
    assert np.isnan(given["C"][0]).all()
    assert np.isposinf(given["C"][1]).all()
    assert np.isfinite(given["C"][2]).all()


def vector_text(body: str, shapes: dict[str, str], output: str = "4x5") -> str:
    inputs = "\n".join(f".hbm {name} f32 {sizes} input" for name, sizes in shapes.items())
    return f"""
.kernel f tpu:spec
{inputs}
.hbm C f32 {output} output
.vmem x f32 8x8
.vmem y f32 8x8
.vmem out f32 8x8
{body}
"""


@pytest.mark.parametrize(
    ("sizes", "window", "shape"),
    [
        ("4x5", "B[0 : 4, 0 : 5]", (4, 5)),
        ("5", "B[0 : 5]", (1, 5)),
        ("4", "B[0 : 4] transposed", (4, 1)),
        ("1", "B[0]", (1, 1)),
        ("scalar", "B[]", (1, 1)),
        ("5x4", "B[0 : 5, 0 : 4] transposed", (4, 5)),
        ("2x4x3x5", "B[1, 0 : 4, 2, 0 : 5]", (4, 5)),
    ],
)
def test_vector_add_repeats_rows_columns_and_scalars(sizes, window, shape) -> None:
    dims = () if sizes == "scalar" else tuple(map(int, sizes.split("x")))
    a, b = rng.standard_normal((4, 5)).astype("f4"), rng.standard_normal(dims).astype("f4")
    c = np.empty((4, 5), np.float32)
    body = f"""
dma_in x, A[0 : 4, 0 : 5]
dma_in y, {window}
vector_add out, x, y
store_output C[0 : 4, 0 : 5], out
"""
    run(vector_text(body, {"A": "4x5", "B": sizes}), {"A": a, "B": b, "C": c})
    tile = b.T if "transposed" in window and b.ndim == 2 else b[1, :, 2] if b.ndim == 4 else b
    np.testing.assert_array_equal(c, a + tile.reshape(shape))


def test_relu_keeps_nan_and_vector_round_rounds() -> None:
    a = np.array([[-1.0, 2.0, np.nan, np.inf, 1 + 2**-9]], np.float32)
    c, text = np.empty((1, 5), np.float32), "activate relu, out, x\nvector_round out, out, bf16\n"
    body = f"dma_in x, A[0, 0 : 5]\n{text}store_output C[0, 0 : 5], out"
    run(vector_text(body, {"A": "1x5"}, "1x5"), {"A": a, "C": c})
    np.testing.assert_array_equal(c, np.array([[0, 2, np.nan, np.inf, 1]], np.float32))


def test_a_store_repeats_a_row_a_column_or_a_number() -> None:
    a, c = np.arange(5, dtype=np.float32), np.empty((4, 5), np.float32)
    body = "dma_in x, A[0 : 5]\nstore_output C[0 : 3, 0 : 5], x\nstore_output C[3, 0 : 5], -1.5"
    run(vector_text(body, {"A": "5"}), {"A": a, "C": c})
    np.testing.assert_array_equal(c[:3], np.tile(a, (3, 1)))
    np.testing.assert_array_equal(c[3], np.full(5, -1.5))


def test_strided_arrays_are_read_and_written_in_place() -> None:
    big = rng.standard_normal((8, 10)).astype(np.float32)
    out = np.zeros((5, 8), np.float32)
    body = "dma_in x, A[0 : 4, 0 : 5]\nstore_output C[0 : 4, 0 : 5], x"
    run(vector_text(body, {"A": "4x5"}), {"A": big[::-2, ::2], "C": out.T[::2]})
    np.testing.assert_array_equal(out.T[::2], big[::-2, ::2])
    assert not out.T[1::2].any()


def test_a_view_shows_the_same_memory_under_other_sizes_and_strides() -> None:
    a, c = np.arange(20, dtype=np.float32), np.empty((4, 5), np.float32)
    text = vector_text(
        "dma_in x, A_1[0 : 5, 0 : 4] transposed\nstore_output C[0 : 4, 0 : 5], x", {"A": "20"}
    ).replace(".vmem x", ".view A_1 5x4 strides 4x1 of A\n.vmem x")
    run(text, {"A": a, "C": c})
    np.testing.assert_array_equal(c, a.reshape(5, 4).T)


def test_a_temporary_holds_what_was_stored() -> None:
    a, c = rng.standard_normal((4, 5)).astype("f4"), np.empty((4, 5), np.float32)
    text = vector_text(
        "dma_in x, A[0 : 4, 0 : 5]\nstore_output t[0 : 4, 0 : 5], x\n"
        "dma_in y, t[0 : 4, 0 : 5]\nstore_output C[0 : 4, 0 : 5], y",
        {"A": "4x5"},
    ).replace(".vmem x", ".hbm t bf16 4x5 temporary\n.vmem x")
    run(text, {"A": a, "C": c})
    np.testing.assert_array_equal(c, a.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_a_ring_reads_the_slot_filled_last() -> None:
    a, c = np.array([1, 2], np.float32), np.empty((1, 2), np.float32)
    text = vector_text(
        "dma_in x, A[0]\ndma_in x, A[1]\nstore_output C[0, 0 : 2], x", {"A": "2"}, "1x2"
    ).replace(".vmem x f32 8x8", ".vmem x f32 8x8 slots 2")
    run(text, {"A": a, "C": c})
    np.testing.assert_array_equal(c, [[2, 2]])


def test_a_loop_without_iterations_runs_nothing() -> None:
    text = ".kernel f tpu:spec\n.hbm C f32 0x3 output\nloop %i, 0, 128\n  \nend\n"
    launch = run(text, {"C": np.empty((0, 3), np.float32)})
    assert launch.counters["cycles"] == 0
    assert launch.counters["instructions"] == 0
    assert launch.counters["utilization_percent"] == 0


def test_lines_count_what_ran() -> None:
    launch = run(matmul_text(5, 200, 300), arrays(5, 200, 300))
    lines = matmul_text(5, 200, 300).split("\n")
    by_name = {lines[n - 1].split()[0]: counts for n, counts in launch.lines.items()}
    assert by_name["systolic_execute"].executions == 6
    assert by_name["systolic_execute"].cycles == 6 * (5 + 254) == launch.counters["systolic_cycles"]
    assert by_name["store_output"].executions == 2
    total = sum(counts.executions for counts in launch.lines.values())
    assert total == launch.counters["instructions"] == 6 * 5 + 2 * 2


def test_the_vector_unit_works_while_the_array_does() -> None:
    text = matmul_text(128, 256, 128).replace(
        "store_output", "activate relu, out, sums\n  store_output"
    )
    text = text.replace("], sums\nend", "], out\nend").replace(
        ".accumulators", ".vmem out f32 128x128 slots 2\n.accumulators"
    )
    given = arrays(128, 256, 128)
    counters = run(text, given).counters
    assert (given["C"] >= 0).all()
    # The first tile's 16 vector cycles hide behind the second pass, the last one's do not.
    assert counters["vector_cycles"] == 32
    assert counters["cycles"] == 1019 + 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": None}, "input A is missing: expected f32 of shape (2, 3)"),
        ({"A": np.zeros((3, 2), np.float32)}, "input A: expected f32 of shape (2, 3), found f32"),
        ({"B": np.zeros((3, 4), np.float64)}, "input B: expected f32 of shape (3, 4), found f64"),
        ({"Z": np.zeros(1, np.float32)}, "the text declares no tensor 'Z'; it has: A, B, C"),
    ],
)
def test_arrays_that_do_not_fit_the_text(change, message) -> None:
    given = {**arrays(2, 4, 3), **change}
    given = {name: array for name, array in given.items() if array is not None}
    with pytest.raises(ArgumentError) as error:
        run(matmul_text(2, 4, 3), given)
    assert message in str(error.value)
