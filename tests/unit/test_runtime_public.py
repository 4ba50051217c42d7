"""``import wia_compiler as wia``: what it offers, and that it costs nothing until it is used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wia_compiler as wia
from wia_compiler.base.source import Source


def test_everything_promised_is_there():
    for name in wia.__all__:
        assert getattr(wia, name) is not None
    assert set(wia.__all__) <= set(dir(wia))
    assert issubclass(wia.CompileError, wia.WiaError)
    assert issubclass(wia.ArgumentError, wia.WiaError)
    assert issubclass(wia.TargetError, wia.WiaError)
    with pytest.raises(AttributeError, match="no attribute 'kernels'"):
        _ = wia.kernels


def test_the_lazy_names_are_the_public_ones():
    from wia_compiler import _LAZY, _MODULES

    eager = {name for name in wia.__all__ if name.endswith("Error")} | {"Diagnostic"}
    assert {*_LAZY, *_MODULES} == set(wia.__all__) - eager - {"__version__"}


def test_importing_it_imports_no_heavy_package():
    script = (
        "import sys; import wia_compiler; "
        "print([n for n in ('numpy', 'xdsl', 'llvmlite', 'lark') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(wia.__file__).parents[1])},
    )
    assert done.stdout == "[]\n", done.stderr


def test_what_compile_cannot_take_is_refused():
    text = "kernel k(input A: tensor, output B: tensor) { B = A; }"
    with pytest.raises(wia.ArgumentError, match="bindings=: got a list, expected a mapping"):
        wia.compile(text, bindings=["w"])
    with pytest.raises(wia.ArgumentError, match=r"expected one of 'wia', 'c\+\+'"):
        wia.compile(text, language="python")
    with pytest.raises(wia.ArgumentError, match=r"did you mean 'c\+\+'\?"):
        wia.compile(text, language="C++")
    with pytest.raises(wia.ArgumentError, match="schedule=: got a int, expected text"):
        wia.compile(text, schedule=4)  # type: ignore[arg-type]
    with pytest.raises(wia.ArgumentError, match="got a int"):
        wia.compile(3)


def test_a_program_is_a_mapping_with_attributes():
    program = wia.compile(
        Source("kernel one(input A: tensor, output B: tensor) { B = A; }", "In [3]")
    )
    assert list(program) == ["one"] and len(program) == 1 and "one" in program
    assert program["one"] is program.one and "one" in dir(program)
    assert program.one.name == "one" and program.one.source.startswith("kernel one(")
    assert program.source.name == "In [3]" and "one(" in repr(program)
    with pytest.raises(KeyError, match="did you mean 'one'"):
        program["on"]
    with pytest.raises(AttributeError, match="no kernel 'two'"):
        _ = program.two
    assert program.get("two") is None


def test_programs_can_be_copied_and_pickling_says_no_nonsense():
    import copy

    program = wia.compile("kernel one(input A: tensor, output B: tensor) { B = A; }")
    assert list(copy.copy(program)) == ["one"]


def test_faults_of_a_text_are_raised_with_the_cells_name():
    with pytest.raises(wia.CompileError) as caught:
        wia.compile(Source("kernel k(input A: tensor, output B: tensor) { B = C; }", "In [4]"))
    (diagnostic,) = caught.value.diagnostics
    assert "In [4]:1:51" in diagnostic.render()


def test_reference_computes_what_the_kernel_means():
    import numpy as np

    program = wia.compile(
        "kernel k(input A: tensor, alpha: f32 = 3.0, output B: tensor) { B = A * alpha; }"
    )
    a = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(wia.reference(program.k, a), a * 3)
    np.testing.assert_array_equal(wia.reference(program.k, a, alpha=2), a * 2)
    with pytest.raises(wia.ArgumentError, match="A is missing"):
        wia.reference(program.k)


def test_a_kernel_shows_its_parameters_to_pythons_tools():
    import inspect

    program = wia.compile(
        "kernel k(input A: tensor<M, f32>, n: i32 = 2, output B: tensor) { B = A; }"
        "kernel l(n: i32 = 2, input A: tensor, output B: tensor) { B = A; }"
        "kernel m(input lambda: tensor, output B: tensor) { B = lambda; }"
        "kernel o(input out: tensor, output B: tensor) { B = out; }"
    )
    assert str(inspect.signature(program.k)) == ("(A: 'tensor<M, f32>', n: 'i32' = 2, *, out=None)")
    for unusual in (program.l, program.m, program.o):
        assert str(inspect.signature(unusual)) == "(*arrays, out=None)"
    assert program.k.__name__ == "k"
    assert program._ipython_key_completions_() == ["k", "l", "m", "o"]


CHAPTER_KERNEL = """\
// WIA DSL 예제
kernel matmul_kernel(
    input A: tensor,
    input B: tensor,
    output C: tensor
) {
    // 고수준 텐서 표기법
    C = A @ B;  // 행렬 곱셈
}
"""
CHAPTER_IR = """\
func @matmul_kernel(
    %A: tensor,
    %B: tensor
) -> tensor {
    %C = tensor.matmul %A, %B : (tensor, tensor)
                                -> tensor
    return %C
}"""


def test_a_kernel_prints_its_ir_as_mlir_and_as_the_chapter_does():
    kernel = wia.compile(CHAPTER_KERNEL).matmul_kernel
    assert kernel.ir("chapter").rstrip() == CHAPTER_IR
    assert "wia.matmul %A, %B : (!wia.tensor, !wia.tensor) -> !wia.tensor" in kernel.ir()
    with pytest.raises(wia.ArgumentError, match="expected one of mlir, chapter"):
        kernel.ir("latex")
