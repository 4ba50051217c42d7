"""The grammar of ``--args``: what it reads, and carets under what it does not."""

import math

import pytest
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import ArgumentError
from wia_compiler.runtime.argument_text import parse_arguments
from wia_compiler.runtime.specs import Spec, spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("   ", {}),
        ("A=f32[1024,512]", {"A": spec((1024, 512))}),
        (" A = f32 [ 3 , 4 ] ,\n B = i8[0] ", {"A": spec((3, 4)), "B": spec(0, "i8")}),
        ("A=f32[],B=bf16", {"A": spec(()), "B": spec((), "bf16")}),
        ("A=f32[3],", {"A": spec(3)}),
        ("alpha=2.0, n=-3, e=1e-5, E=2E+3", {"alpha": 2.0, "n": -3, "e": 1e-5, "E": 2000.0}),
        ("x=inf, y=-inf", {"x": math.inf, "y": -math.inf}),
        ("yes=true, no=false, No=False", {"yes": True, "no": False, "No": False}),
        ("입력=f64[2]", {"입력": spec(2, "f64")}),
    ],
)
def test_reads(text, expected):
    found = parse_arguments(text)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(v) for v in expected.values()]


@pytest.mark.parametrize("name", DTYPES)
def test_reads_back_what_a_spec_prints(name):
    for each in (spec((), name), spec((1,), name), spec((2, 0, 5), name)):
        assert parse_arguments(f"A={each}") == {"A": each}


@pytest.mark.parametrize(
    ("text", "message", "column", "carets", "hint"),
    [
        ("A f32", "expected '=', found 'f32'", 3, 3, "A=f32[1024,512]"),
        ("A=", "expected a dtype or a number, found the end", 3, 1, "f32[1024,512]"),
        ("A=f3[3]", "found 'f3'", 3, 2, "did you mean f32?"),
        ("A=tensor[3]", "found 'tensor'", 3, 6, "f32[1024,512]"),
        ("A=f32[3", "expected ',', found the end", 8, 1, "close the sizes with ]"),
        ("A=f32[3,x]", "expected a size, found 'x'", 9, 1, "whole numbers from 0"),
        ("A=f32[-3]", "expected a size, found '-3'", 7, 2, "whole numbers from 0"),
        ("A=f32[2.5]", "expected a size, found '2.5'", 7, 3, "whole numbers from 0"),
        ("A=f32[3] B=2", "expected ',', found 'B'", 10, 1, "comma"),
        ("A=1, A=2", "each parameter once", 6, 1, "given twice"),
        ("=3", "expected a parameter's name, found '='", 1, 1, "A=f32[1024,512]"),
        ("A=1.2.3", "expected a number, found '1.2.3'", 3, 5, "1e-5"),
        ("A=f32[3]; B=2", "expected ',', found ';'", 9, 1, "comma"),
        ("A=@", "expected a dtype or a number, found '@'", 3, 1, "2.0"),
    ],
)
def test_points_at_what_is_wrong(text, message, column, carets, hint):
    with pytest.raises(ArgumentError) as caught:
        parse_arguments(text, name="--args")
    first, where, excerpt, caret, helped = str(caught.value).splitlines()
    assert message in first
    assert where == f"  --> --args:1:{column}"
    assert excerpt == f"   1 | {text}"
    assert caret == f"     | {' ' * (column - 1)}{'^' * carets}"
    assert helped.startswith("  help: ") and hint in helped


def test_newlines_do_not_move_the_caret():
    with pytest.raises(ArgumentError, match=r"--args:1:11"):
        parse_arguments("A=f32[3],\n=2", name="--args")


def test_a_number_is_no_spec():
    assert not isinstance(parse_arguments("A=3")["A"], Spec)
