"""What each spelling of a type and a default declares."""

from __future__ import annotations

import pytest
from wia_compiler.base.dtypes import DTYPES, F32, I32, U8, DType
from wia_compiler.base.errors import CompileError
from wia_compiler.base.signature import DeclaredType, ParameterDeclaration
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program


def parameter(text: str) -> ParameterDeclaration:
    program = parse(Source(f"kernel k({text}, output out_: tensor) {{ out_ = p * 1; }}"))
    return import_program(program).kernels["k"].parameters[0]


@pytest.mark.parametrize(
    ("text", "dims", "dtype"),
    [
        ("tensor", None, None),
        ("tensor<f32>", None, F32),
        ("tensor<1024, f32>", (1024,), F32),
        ("tensor<1024>", (1024,), None),
        ("tensor<M, K, f32>", ("M", "K"), F32),
        ("tensor<M, 8, ?, u8>", ("M", 8, None), U8),
        ("tensor<1024x512xf32>", (1024, 512), F32),
        ("tensor<4x8>", (4, 8), None),
        ("tensor<?x?xf32>", (None, None), F32),
        ("tensor<?>", (None,), None),
        ("tensor<?x3, N, i32>", (None, 3, "N"), I32),
        ("tensor<0x16xf32>", (0, 16), F32),
        ("tensor < 4 , f32 >", (4,), F32),
    ],
)
def test_tensor_types(
    text: str, dims: tuple[int | str | None, ...] | None, dtype: DType | None
) -> None:
    declared = parameter(f"input p: {text}")
    assert (declared.type, declared.role) == (DeclaredType(dims, dtype), "input")


@pytest.mark.parametrize("name", DTYPES)
def test_scalar_types(name: str) -> None:
    for role in ("", "input "):
        declared = parameter(f"{role}p: {name}")
        assert declared.role == "scalar"
        assert declared.type == DeclaredType((), DTYPES[name])
        assert declared.default is None


def test_a_tensor_without_a_role_is_an_input() -> None:
    assert parameter("p: tensor").role == "input"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f32 = 1.5", 1.5),
        ("f32 = 2", 2.0),
        ("f16 = -65504", -65504.0),
        ("bf16 = 3e38", 3e38),
        ("i8 = -128", -128),
        ("u8 = 0xFF", 255),
        ("i32 = 1e3", 1000),
        ("i64 = 9223372036854775807", 2**63 - 1),
        ("i64 = -9223372036854775808", -(2**63)),
        ("bool = true", True),
        ("bool = false", False),
    ],
)
def test_defaults(text: str, value: bool | int | float) -> None:
    default = parameter(f"p: {text}").default
    assert default == value
    assert type(default) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "i8 = 128",
        "u8 = -1",
        "u8 = 256",
        "i32 = 1.5",
        "f32 = 16777217",
        "f32 = 1e-60",
        "i64 = 9223372036854775808",
        "i64 = -9223372036854775809",
        "f16 = 65520",
        "f32 = 1e39",
        "f64 = 1e400",
        "bool = 1",
        "i32 = true",
        "tensor = 1.0",
    ],
)
def test_a_default_that_its_type_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parameter(f"p: {text}")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.column >= len("kernel k(p: ")


def test_the_span_of_a_wrong_size_is_that_size() -> None:
    with pytest.raises(CompileError) as caught:
        parameter("input p: tensor<4x8yxf32>")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    source = "kernel k(input p: tensor<4x8yxf32>"
    assert source[diagnostic.span.column - 1 : diagnostic.span.end_column - 1] == "8y"
