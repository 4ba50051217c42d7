"""Ctrl-C stops a kernel that runs for long, and nothing else is touched."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.llvm.emit import emit_llvm
from wia_compiler.passes.llvm.interrupts import LONG_LOOP, watched_loops
from wia_compiler.passes.llvm.options import nvptx_options, x86_options

ENDLESS = {
    "tensors": """kernel k(input a: tensor, output x: tensor) {
        x = a; while (reduce_max(x) > -1.0) { x = x * 1.0000001; } }""",
    "elements": """kernel k(input a: tensor<N, f32>, output x: tensor<N, f32>) {
        for i in 0..N { s = a[i]; while (s > -1.0) { s = s * 1.0000001; } x[i] = s; } }""",
    "true": "kernel k(input a: tensor, output x: tensor) { x = a; while (true) { x = -x; } }",
}

SCRIPT = """
    import signal
    import sys
    import numpy as np
    import wia_compiler as wia

    # A process in the background of a shell is started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kernel = wia.compile(sys.argv[1])["k"]
    ones = np.ones(100, np.float32)
    kernel.build(ones)
    try:
        print("running", flush=True)
        kernel(ones if sys.argv[2] == "fast" else ones.view(np.recarray))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    after = wia.compile("kernel g(input a: tensor, output b: tensor) { b = a + 1; }").g
    print(after(ones).sum(), flush=True)
"""


@pytest.mark.parametrize(
    ("program", "way"),
    [("tensors", "fast"), ("tensors", "ctypes"), ("elements", "fast"), ("true", "fast")],
)
def test_an_endless_loop_stops_at_sigint(program: str, way: str, tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(script), ENDLESS[program], way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "running\n"
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said == "interrupted\n200.0\n"
    assert process.returncode == 0


class Alarm(Exception):
    """What the handler of a test raises."""


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch):
    """A timer whose handler raises."""

    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_the_exception_of_any_handler_arrives(alarm) -> None:
    kernel = wia.compile(ENDLESS["tensors"])["k"]
    kernel.build(wia.spec((100,), "f32"))
    alarm(0.05)
    with pytest.raises(Alarm):
        kernel(np.ones(100, np.float32))
    np.testing.assert_array_equal(kernel(np.full(100, -2, np.float32)), np.full(100, -2))


def test_a_long_product_stops_between_its_rows(alarm) -> None:
    kernel = wia.compile("kernel k(input A: tensor, output C: tensor) { C = A @ A @ A @ A; }")["k"]
    A = np.ones((2500, 2500))
    kernel.build(A)
    alarm(0.05)
    with pytest.raises(Alarm):
        kernel(A)


@pytest.mark.parametrize(
    "text",
    [
        "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = relu(A @ B); }",
        "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = softmax(A + B); }",
        """kernel k(input A: tensor, input B: tensor, output C: tensor) {
            if (reduce_sum(A) > 0) { C = A; } else { C = B; } }""",
    ],
)
def test_kernels_that_end_soon_ask_nothing(text: str) -> None:
    """Nothing is added to their code, so nothing is paid."""
    spec = wia.spec((128, 128), "f32")
    llvm = wia.compile(text)["k"].build(spec, spec).assembly("llvm")
    assert "PyErr" not in llvm
    assert "readcyclecounter" not in llvm


def loop(trips: str, inner: str = "", lines: int = 1) -> str:
    """A nest of one scf loop; ``trips`` is its upper bound, ``inner`` a loop inside."""
    body = inner or "\n".join(
        f"%x{n} = memref.load %a[%i] : memref<8xf32>\nmemref.store %x{n}, %a[%i] : memref<8xf32>"
        for n in range(lines)
    )
    return f"""
        func.func @k(%a: memref<8xf32>, %n: index) attributes {{wia.nest}} {{
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %big = arith.constant {LONG_LOOP} : index
          %huge = arith.constant {1 << 31} : index
          %small = arith.constant 8 : index
          scf.for %i = %zero to {trips} step %one {{ {body} }}
          func.return
        }}"""


INNER = """scf.for %j = %zero to %n step %one {
    scf.if %t { memref.store %f, %a[%j] : memref<8xf32> } }"""
WHILE = """scf.while (%c = %one) : (index) -> index { scf.condition(%t) %c : index } do {
    ^bb0(%d: index): scf.yield %d : index }"""


CALL = "func.call @f() : () -> ()"
IF = f"%t = arith.constant true\nscf.if %t {{ {CALL} }}"


def inside(trips: str) -> str:
    """A loop that calls something."""
    return f"scf.for %j = %zero to {trips} step %one {{ {CALL} }}"


@pytest.mark.parametrize(
    ("text", "paces"),
    [
        (loop("%small"), []),
        (loop("%n"), []),  # straight code of unknown length walks an array
        (loop("%big"), []),  # some 0.1 s
        (loop("%huge"), ["counted"]),
        (loop("%small", inside("%big")), ["each"]),
        (loop("%small", inside("%small")), []),
        (loop("%n", IF), ["counted"]),
        (loop("%small", "%t = arith.constant true\n" + WHILE), ["counted"]),
    ],
)
def test_which_loops_are_watched(text: str, paces: list[str]) -> None:
    module = parse_ir(text + "\nfunc.func private @f() -> ()")
    watched = watched_loops(module)
    assert list(watched.loops.values()) == paces
    assert watched.stoppable == ({"k"} if paces else set())
    assert ("PyErr_CheckSignals" in emit_llvm(module, x86_options("x86_64-linux")).text) == bool(
        paces
    )
    plain = emit_llvm(module, x86_options("x86_64-linux", interruptible=False)).text
    assert "PyErr" not in plain


def test_a_gpu_asks_nothing() -> None:
    text = loop("%huge").replace("wia.nest", "gpu.kernel")
    assert "PyErr" not in emit_llvm(parse_ir(text), nvptx_options()).text
