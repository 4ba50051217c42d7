"""Free names: arrays become arguments, numbers literals, tuples their elements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import print_ir
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import ImportedProgram, import_program

ARRAY = np.ones(3, np.float32)


def imported(text: str, bindings: Mapping[str, object]) -> ImportedProgram:
    program = import_program(parse(Source(text)), bindings)
    program.module.verify()
    return program


def messages(text: str, bindings: Mapping[str, object]) -> list[str]:
    with pytest.raises(CompileError) as caught:
        import_program(parse(Source(text)), bindings)
    return [each.message for each in caught.value.diagnostics]


def test_arrays_come_last_in_the_order_of_their_first_use() -> None:
    text = "func @f(%x: tensor, %t: f32) -> tensor { %0 = %b * %x  %1 = %a + %0  return %1 + %b }"
    signature = imported(text, {"a": ARRAY, "b": ARRAY, "unused": ARRAY}).kernels["f"]
    assert [p.name for p in signature.inputs] == ["x", "t", "b", "a"]
    assert [p.name for p in signature.passed] == ["x", "t"]
    assert [p.role for p in signature.parameters] == ["input", "scalar", "bound", "bound"]


def test_numbers_are_literals_and_may_be_attributes() -> None:
    text = "func @f(%x: tensor) -> tensor { %0 = %x * %s  return softmax(%0, dim=%axis) }"
    bindings = {"s": np.float32(0.5), "axis": np.int64(1)}
    program = imported(text, bindings)
    printed = print_ir(program.module)
    assert "wia.constant 5.000000e-01" in printed
    assert "dim = 1 : i64" in printed
    assert program.kernels["f"].inputs == program.kernels["f"].passed


def test_a_tuple_of_numbers_is_an_attribute() -> None:
    text = "func @f(%x: tensor) -> tensor { return permute(%x, %order) }"
    assert "dims = [1 : i64, 0 : i64]" in print_ir(imported(text, {"order": (1, 0)}).module)


def test_a_tuple_of_arrays_stands_for_its_elements() -> None:
    text = "func @f(%x: tensor) -> tensor { %0 = clamp(%x, %limits)  return %0 * %limits.1 }"
    program = imported(text, {"limits": (ARRAY, ARRAY)})
    assert [p.name for p in program.kernels["f"].inputs] == ["x", "limits.0", "limits.1"]


def test_a_tuple_may_hold_arrays_and_numbers() -> None:
    text = "func @f(%x: tensor) -> tensor { return layer_norm(%x, none, %params) }"
    kernel = wia.compile(text, bindings={"params": [ARRAY, ARRAY, 0.5]}).f
    x = np.array([1, 2, 6], np.float32)
    expected = (x - 3) / np.sqrt(np.float32(14 / 3 + 0.5)) + 1
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-6)


def test_callers_take_what_their_callees_need() -> None:
    text = """
    func @outer(%x: tensor) -> tensor { %0 = middle(%x)  return %0 + %b }
    kernel middle(input x: tensor) { return inner(x) * 2.0; }
    func @inner(%x: tensor) -> tensor { return %x + %a }
    """
    a, b = np.arange(3, dtype=np.float32), np.full(3, 10, np.float32)
    program = wia.compile(text, bindings={"a": a, "b": b})
    assert [p.name for p in program.outer.signature.inputs] == ["x", "a", "b"]
    assert program.outer(ARRAY).tolist() == [12.0, 14.0, 16.0]
    a += 1
    assert program.outer(ARRAY).tolist() == [14.0, 16.0, 18.0]


def test_a_kernel_may_use_bound_names_too() -> None:
    text = """kernel k(input x: tensor<N>, output y: tensor<N>) {
        for i in 0..N { y[i] = x[i] * table[i] + offset; }
    }"""
    table = np.array([1, 2, 3], np.float32)
    kernel = wia.compile(text, bindings={"table": table, "offset": 0.5}).k
    assert kernel(ARRAY).tolist() == [1.5, 2.5, 3.5]


def test_what_the_text_declares_is_never_bound() -> None:
    bindings = {"x": 3.0, "y": ARRAY, "relu": ARRAY, "N": 4}
    text = "kernel k(input x: tensor<N>, output y: tensor) { y = relu(x) * cast(N, f32); }"
    assert [p.name for p in imported(text, bindings).kernels["k"].inputs] == ["x"]
    text = "kernel k(input x: tensor, output y: tensor) { z = y; y = x; }"
    assert messages(text, bindings) == ["output 'y' is used before it is set"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (print, "'w' is bound to a builtin_function_or_method, expected an array, a number"),
        ("text", "'w' is bound to a str, expected"),
        (np.ndarray, "'w' is bound to a class, expected"),
        ({"a": ARRAY}, "'w' is bound to a dict, expected"),
        (None, "'w' is bound to a NoneType, expected"),
        ((ARRAY, ARRAY), "'w' is bound to a tuple of 2"),
        (2**70, "'w' is bound to"),
        (1j, "'w' is bound to a complex, expected"),
    ],
)
def test_what_cannot_be_a_value_says_what_it_is(value: object, message: str) -> None:
    text = "func @f(%x: tensor) -> tensor { %0 = %x * %w  return %0 }"
    (found,) = messages(text, {"w": value})
    assert found.startswith(message)


def test_an_element_that_a_tuple_does_not_have() -> None:
    text = "func @f(%x: tensor) -> tensor { %0 = %x * %w.2  return %0 }"
    assert messages(text, {"w": (ARRAY, ARRAY)}) == ["no value named '%w.2'"]


def test_bound_arrays_of_a_lookup_by_name_alone_are_not_read() -> None:
    """A namespace full of other things is no burden, whatever its objects do."""

    class Sly:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    text = "func @f(%x: tensor) -> tensor { return %x * %w }"
    assert imported(text, {"sly": Sly(), "w": 2.0}).kernels["f"].results == 1


def test_snippets_take_what_is_free_and_give_what_is_not_read() -> None:
    text = "%a = %x * %w\n%b = relu(%y)\n%c = %a - %x\n"
    signature = imported(text, {"w": 3.0}).kernels["snippet"]
    assert [p.name for p in signature.inputs] == ["x", "y"]
    assert signature.results == 2


def test_a_snippet_may_stand_around_other_things() -> None:
    text = "%a = double(%x)\nkernel double(input x: tensor) { return x * 2.0; }\n%b = neg(%a)\n"
    assert wia.compile(text).snippet(ARRAY).tolist() == [-2.0, -2.0, -2.0]
