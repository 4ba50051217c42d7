"""Wrong assembly: every fault with its line, its caret and what to do."""

import numpy as np
import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.simulators.tpu import TpuFault, run

HEAD = """\
.kernel f tpu:spec
.hbm A f32 200x300 input
.hbm C f32 200x300 output
.vmem x bf16 128x128 slots 2
.vmem w bf16 128x128
.vmem v f32 128x128
.accumulators sums 128x128
"""
ARRAYS = {"A": np.zeros((200, 300), np.float32), "C": np.zeros((200, 300), np.float32)}


def refused(body: str, head: str = HEAD) -> list[str]:
    """The rendered diagnostics of a text that does not read."""
    with pytest.raises(CompileError) as error:
        run(head + body, ARRAYS, name="k.tpu")
    return [each.render() for each in error.value.diagnostics]


def fault(body: str, head: str = HEAD) -> str:
    """The rendered diagnostic of a text that fails while it runs."""
    with pytest.raises(TpuFault) as error:
        run(head + body, ARRAYS, name="k.tpu")
    return str(error.value)


def test_an_unknown_instruction_names_the_nearest() -> None:
    assert refused("  load_weight array, w") == [
        "error: unknown instruction 'load_weight'\n"
        "  --> k.tpu:8:3\n"
        "   8 |   load_weight array, w\n"
        "     |   ^^^^^^^^^^^\n"
        "  help: did you mean load_weights?"
    ]


def test_a_text_without_a_kernel_is_none() -> None:
    (found,) = refused("", "")
    assert found.startswith("error: the text has no .kernel line\n  --> k.tpu:1:1")


def test_a_wrong_number_of_operands_shows_the_form() -> None:
    assert refused("stream_input x") == [
        "error: stream_input takes 2 operands, found 1\n"
        "  --> k.tpu:8:1\n"
        "   8 | stream_input x\n"
        "     | ^^^^^^^^^^^^^^\n"
        "  help: write: stream_input array, input"
    ]


def test_all_faults_are_reported_at_once() -> None:
    found = refused("dma_in q, A[0 : 8, 0 : 8]\nload_weights array\nactivate tanh, v, v\nend")
    assert [each.splitlines()[0] for each in found] == [
        "error: destination: no buffer 'q'",
        "error: load_weights takes 2 operands, found 1",
        "error: unknown function 'tanh'",
        "error: end without a loop",
    ]


@pytest.mark.parametrize(
    ("line", "message", "caret"),
    [
        ("load_weights arrays, w", "expected the word array, found 'arrays'", "arrays"),
        ("systolic_execute 64x64, sums", "the array is 128x128, found '64x64'", "64x64"),
        ("systolic_execute 128x128, v", "accumulators is in accumulators, v is in vmem", "v"),
        ("load_weights array, v", "the array takes bf16, v is f32", "v"),
        ("load_weights array, sums", "weights is in vmem, sums is in accumulators", "sums"),
        ("vector_add v, v, x", "the vector unit takes f32, x is bf16", "x"),
        ("vector_round v, v, f64", "unknown dtype 'f64'", "f64"),
        ("dma_in x, B[0]", "no tensor 'B'", "B"),
        ("dma_in x, A", "source is a window, found 'A'", "A"),
        ("dma_in x, A[0 : 8]", "A has 2 axes, the window has 1", "A[0 : 8]"),
        ("dma_in x, A[0 : 8, %k : 8]", "%k is not set here", "%k"),
        ("dma_in x, A[0 : 8, 0 : n]", "expected a length, found 'n'", "n"),
        ("dma_in x, A[0 : 8, 1 + q : 8]", "'q' is not an index", "q"),
        ("dma_in x, A[200 : 8, 0 : 8]", "index 200 is outside an axis of 200", "200 : 8"),
        (
            "dma_in x, A[0 : 200, 0 : 8]",
            "a tile of 200x8 does not fit x, which is 128x128",
            "A[0 : 200, 0 : 8]",
        ),
        ("store_output A[0, 0], v", "A is an input and cannot be written", "A[0, 0]"),
        ("loop k, 8, 1", "expected a register, found 'k'", "k"),
        ("loop %k, n, 1", "extent is a whole number, found 'n'", "n"),
        ("loop %k, 8, 0", "a loop's step starts at 1", "0"),
        ("loop %k, 8, 1", "the loop has no end", "loop %k, 8, 1"),
        (".vmen q f32 8x8", "unknown directive '.vmen'", ".vmen"),
        (".vmem x f32 8x8", "x is already declared on line 4", "x"),
        (".vmem q f32 8", "'8' is not a size", "8"),
        (".vmem q f32 8x0", "a buffer has rows, columns and slots from 1", "8x0"),
        (".vmem q i32 8x8", "unknown dtype 'i32'", "i32"),
        (".vmem q f32 4096x2048", "q does not fit: buffers take 33718272 bytes", "q"),
        (".accumulators q 4000x128", "q does not fit: accumulators have 4096 rows of 128", "q"),
        (".hbm q f32 8x8 inout", "unknown role 'inout'", "inout"),
        (".hbm q f32 8*8 input", "'8*8' is not a size", "8*8"),
        (".hbm 8q f32 8x8 input", "'8q' is not a name", "8q"),
        (".hbm q f32", "expected .hbm NAME DTYPE SIZES ROLE", ".hbm"),
        (".view q 8 strides 1x1 of A", "expected 1 strides, found '1x1'", "1x1"),
        (".view q 8 strides 1 of B", "no tensor 'B'", "B"),
        (".kernel f tpu:v9", "the text is for 'tpu:v9', this machine is tpu:spec", "tpu:v9"),
    ],
)
def test_each_fault_stands_under_its_operand(line, message, caret) -> None:
    (found,) = refused(line)
    assert found.splitlines()[0].startswith(f"error: {message}")
    assert found.splitlines()[1].startswith("  --> k.tpu:8:")
    text, marks = found.splitlines()[2:4]
    column = marks.index("^")
    assert text[column : column + marks.count("^")] == caret


LOAD = "dma_in w, A[0 : 128, 0 : 128]\nload_weights array, w\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("load_weights array, w", "reads w before anything was written to it"),
        ("stream_input array, x", "reads x before anything was written to it"),
        ("vector_add v, sums, 1.0", "reads sums before anything was written to it"),
        ("systolic_execute 128x128, sums", "the array holds no weights"),
        (f"{LOAD}systolic_execute 128x128, sums", "no input rows are queued"),
        (
            f"{LOAD}dma_in x, A[0 : 8, 0 : 9]\nstream_input array, x\n"
            "clear sums, C[0 : 8, 0 : 128]\nsystolic_execute 128x128, sums",
            "the input tile has 9 columns, the weights have 128 rows",
        ),
        (
            f"{LOAD}dma_in x, A[0 : 8, 0 : 128]\nstream_input array, x\n"
            "clear sums, C[0 : 9, 0 : 128]\nsystolic_execute 128x128, sums",
            "the pass gives 8x128 sums, sums was cleared for 9x128",
        ),
        (
            "dma_in v, C[0 : 8, 0 : 8]",
            "reads 64 elements of C that nothing has written",
        ),
        (
            "dma_in v, A[0 : 8, 0 : 8]\nstore_output C[0 : 9, 0 : 8], v",
            "stores a tile of 8x8 to a window of 9x8",
        ),
        (
            "dma_in v, A[0 : 8, 0 : 8]\nclear sums, C[0 : 8, 0 : 9]\nvector_add v, v, sums",
            "adds tiles of 8 and 9 columns",
        ),
    ],
)
def test_the_machine_stops_at_what_it_forbids(body, message) -> None:
    found = fault(body)
    assert found.startswith(f"error: {message}")
    assert f"  --> k.tpu:{len((HEAD + body).splitlines())}:1" in found


def test_out_of_bounds_says_where_and_with_which_registers() -> None:
    assert fault("loop %i, 200, 128\n  dma_in x, A[%i : 128, 0 : 8]\nend") == (
        "error: out of bounds: A has 200 elements on axis 0, the window takes 128 to 255 (%i = 128)"
        "\n  --> k.tpu:9:3\n"
        "   9 |   dma_in x, A[%i : 128, 0 : 8]\n"
        "     |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  help: write clip after the length to stop at the axis's end"
    )


def test_clip_starts_no_tile_behind_the_end() -> None:
    found = fault("loop %i, 300, 100\n  dma_in x, A[%i + 1 : 100 clip, 0 : 8]\nend")
    assert "the window takes 201 to 300 (%i = 200)" in found


def test_an_output_that_was_not_written_whole() -> None:
    found = fault("dma_in v, A[0 : 8, 0 : 8]\nstore_output C[0 : 8, 0 : 8], v")
    assert found.startswith("error: 59936 of 60000 elements of output C were not written")
    assert "  --> k.tpu:3:6" in found


def test_a_view_that_leaves_its_tensor() -> None:
    found = fault("", HEAD + ".view q 300x300 strides 300x1 of A\n")
    assert "q shows elements 0 to 89999 of A, which has 0 to 59999" in found


def test_a_store_into_an_input_through_a_view_is_refused() -> None:
    (found,) = refused("store_output q[0], v", HEAD + ".view q 300 strides 1 of A\n")
    assert "q is an input and cannot be written" in found


def test_a_fault_shows_no_frames_of_ours() -> None:
    with pytest.raises(TpuFault) as error:
        run(HEAD + "load_weights array, w", ARRAYS)
    assert error.value._render_traceback_()[0].startswith("error: reads w before")
