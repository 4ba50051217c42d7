"""The assembly of chapter 5.8 runs as it is written there."""

import numpy as np
import pytest
from unit.tpu_programs import systolic_matmul
from wia_compiler.base.errors import CompileError
from wia_compiler.simulators.tpu import TpuFault, run

CHAPTER = """\
TPU Assembly:
    // 가중치를 어레이로 로드
    load_weights A, weight_buffer

    // 입력 스트림
    stream_input B, input_buffer

    // 시스톨릭 실행 (128x128 어레이)
    systolic_execute 128x128

    // 결과 저장
    store_output C, output_buffer
"""


def arrays(m: int, k: int, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "A": rng.standard_normal((m, k)).astype(np.float32),
        "B": rng.standard_normal((k, n)).astype(np.float32),
        "C": np.full((m, n), 9, np.float32),
    }


@pytest.mark.parametrize(("m", "k", "n"), [(128, 128, 128), (3, 17, 200), (1, 1, 1), (64, 127, 1)])
def test_the_chapters_text_multiplies(m, k, n) -> None:
    given = arrays(m, k, n)
    launch = run(CHAPTER, given)
    expected = systolic_matmul(given["B"].T, given["A"].T).T if m * k * n < 20000 else None
    if expected is not None:
        np.testing.assert_array_equal(given["C"], expected)
    np.testing.assert_allclose(given["C"], given["A"] @ given["B"], atol=0.4)
    # A stays, so the columns of B are what streams.
    assert launch.counters["cycles"] == 2 * 128 + 128 + n - 2 - 1


@pytest.mark.parametrize(
    ("change", "shapes", "message", "caret"),
    [
        (("A,", "Q,"), (3, 4, 5), "no array 'Q' was passed in", "Q"),
        (("128x128\n", "64x64\n"), (3, 4, 5), "the array is 128x128, found '64x64'", "64x64"),
        (("systolic_execute 128x128", ""), (3, 4, 5), "nothing was executed before", "C"),
        (("", ""), (129, 4, 5), "A is 129x4, the array holds 128x128", "A"),
        (
            ("store_output C,", "store_outputs C,"),
            (3, 4, 5),
            "unknown instruction",
            "store_outputs",
        ),
        (
            ("B, input_buffer", "B"),
            (3, 4, 5),
            "stream_input without declarations",
            "stream_input B",
        ),
    ],
)
def test_faults_stand_in_the_chapters_text(change, shapes, message, caret) -> None:
    with pytest.raises(CompileError) as error:
        run(CHAPTER.replace(*change) if change[0] else CHAPTER, arrays(*shapes))
    (found,) = [each.render() for each in error.value.diagnostics]
    assert found.startswith(f"error: {message}")
    text, marks = found.splitlines()[2:4]
    assert text[marks.index("^") :].startswith(caret)
    assert marks.count("^") == len(caret)


def test_matrices_only() -> None:
    given = {**arrays(3, 4, 5), "A": np.zeros(3, np.float32)}
    with pytest.raises(CompileError, match=r"A is f32 of shape \(3,\)"):
        run(CHAPTER, given)


def test_sizes_that_disagree_are_found_when_it_runs() -> None:
    given = {**arrays(3, 4, 5), "B": np.zeros((6, 5), np.float32)}
    with pytest.raises(TpuFault, match="the input tile has 6 columns, the weights have 4 rows"):
        run(CHAPTER, given)
