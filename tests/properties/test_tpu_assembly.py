"""Random and damaged assembly: the reader refuses it with diagnostics or the program runs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.tpu_programs import matmul_text, systolic_matmul
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.tpu.machine import SPEC
from wia_compiler.simulators.tpu import TpuFault, run
from wia_compiler.simulators.tpu.reader import read_program

TEXT = matmul_text(3, 4, 5)
PIECES = [*TEXT.split(), "clip", "transposed", "-1", "1e9", "nan", "[", "]", ",", "%", "::", "한"]


def arrays() -> dict[str, np.ndarray]:
    return {
        "A": np.ones((3, 5), np.float32),
        "B": np.ones((5, 4), np.float32),
        "C": np.zeros((3, 4), np.float32),
    }


def refused_or_run(text: str) -> None:
    """A text either runs or is refused with a place in it."""
    try:
        run(text, arrays())
    except CompileError as error:
        assert all(each.span is not None for each in error.diagnostics)
    except TpuFault as error:
        assert error.diagnostic.span is not None


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        program = read_program(Source(text), SPEC)
    except CompileError as error:
        assert str(error).startswith("error: ")
    else:
        assert str(read_program(Source(str(program)), SPEC)) == str(program)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_program_is_refused_or_runs(data: st.DataObject) -> None:
    lines = TEXT.strip().split("\n")
    declared = 7  # what comes before names the arrays that are passed in
    number = data.draw(st.integers(declared, len(lines) - 1))
    words = lines[number].split(" ")
    position = data.draw(st.integers(0, len(words) - 1))
    match data.draw(st.sampled_from(["drop", "insert", "replace", "swap", "duplicate", "remove"])):
        case "drop":
            del words[position]
        case "insert":
            words.insert(position, data.draw(st.sampled_from(PIECES)))
        case "replace":
            words[position] = data.draw(st.sampled_from(PIECES))
        case "swap":
            other = data.draw(st.integers(declared, len(lines) - 1))
            lines[number], lines[other] = lines[other], lines[number]
            words = lines[number].split(" ")
        case "duplicate":
            lines.insert(number, lines[number])
        case _:
            words = []
    lines[number] = " ".join(words)
    refused_or_run("\n".join(lines))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 140), st.integers(1, 140), st.integers(1, 140), st.booleans(), st.integers(0, 99)
)
def test_products_of_any_size_have_the_cycles_of_the_formula(m, n, k, double, seed) -> None:
    rng = np.random.default_rng(seed)
    given_arrays = {
        "A": rng.standard_normal((m, k)).astype(np.float32),
        "B": rng.standard_normal((k, n)).astype(np.float32),
        "C": np.empty((m, n), np.float32),
    }
    counters = run(matmul_text(m, n, k), given_arrays, weight_double_buffer=double).counters
    folds = -(-k // 128) * -(-n // 128)
    single = folds * (2 * 128 + 128 + m - 2) - 1
    doubled = 128 + max(m, 128) * (folds - 1) + m + 254 - 1
    assert counters["cycles"] == (doubled if double else single)
    assert counters["total_cycles"] > counters["cycles"]
    part = slice(0, 2), slice(0, 2)
    expected = systolic_matmul(given_arrays["A"][:2], given_arrays["B"][:, :2])
    np.testing.assert_array_equal(given_arrays["C"][part], expected)
