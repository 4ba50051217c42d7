"""The dialect ``loop``: text that reads back, and what its ops refuse."""

import pytest
from wia_compiler.dialects.text import parse_ir, print_ir
from xdsl.utils.exceptions import VerifyException

NEST = """
func.func @k(%A: tensor<4xf32>, %n: tensor<i64>, %C: tensor<4xf32>) -> tensor<4xf32> {{
  %r = loop.nest (%a : tensor<4xf32> = %A : tensor<4xf32>, inout %c : tensor<4xf32> = %C :
      tensor<4xf32>, %m : tensor<i64> = %n) -> (tensor<4xf32>) {{
    %zero = wia.constant 0 : i64 : tensor<i64>
    %one = wia.constant 1 : i64 : tensor<i64>
    %x = wia.constant 1.0 : f64 : tensor<f32>
    %yes = wia.constant true : tensor<i1>
    {body}
    loop.yield
  }}
  func.return %r : tensor<4xf32>
}}"""

GOOD = {
    "load and store": "%y = loop.load %a[%zero] : tensor<4xf32> -> tensor<f32> {proven} "
    "loop.store %y : tensor<f32>, %c[%m] : tensor<4xf32>",
    "for": """%s = loop.for %i = %zero to %m step %one axis "i" iter (%t : tensor<f32> = %x :
        tensor<f32>) attributes {proven} { loop.yield %t : tensor<f32> }""",
    "for without values": 'loop.for %i = %zero to %m step %one axis "i" { loop.yield }',
    "if": """%s = loop.if %yes : tensor<i1> -> (tensor<f32>) { loop.yield %x : tensor<f32> } else
        { loop.yield %x : tensor<f32> }""",
    "while": """%s = loop.while iter (%t : tensor<i64> = %m) { loop.condition %yes : tensor<i1> } do
        { ^bb0(%t2 : tensor<i64>): loop.yield %t2 : tensor<i64> }""",
    "local": '%l = loop.local "f32" [%one, %one] = %x : tensor<f32> -> tensor<1x1xf32>',
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD)
def test_text_reads_back(body: str) -> None:
    module = parse_ir(NEST.format(body=body))
    module.verify()
    text = print_ir(module)
    assert print_ir(parse_ir(text)) == text
    located = print_ir(module, locations=True)
    assert print_ir(parse_ir(located), locations=True) == located


def test_outputs_read_back() -> None:
    text = """
    func.func @k(%n : !wia.tensor) -> !wia.tensor {
      %C = loop.output "C" [%n : !wia.tensor] rank 1 "f32" : !wia.tensor
      %D = loop.output "D" : !wia.tensor
      %E = loop.output "E" rank 2 : !wia.tensor
      func.return %C : !wia.tensor
    }"""
    printed = print_ir(parse_ir(text))
    assert print_ir(parse_ir(printed)) == printed
    assert 'loop.output "C" [%n : !wia.tensor] rank 1 "f32"' in printed
    assert 'loop.output "E" rank 2 :' in printed


BAD = {
    "stores to an operand that is not inout": (
        "loop.store %x : tensor<f32>, %a[%zero] : tensor<4xf32>",
        "a nest stores to an operand that is not inout",
    ),
    "counts of indices": (
        "%y = loop.load %a[%zero, %one] : tensor<4xf32> -> tensor<f32>",
        "2 indices for an array",
    ),
    "index of another dtype": (
        "%y = loop.load %a[%x : tensor<f32>] : tensor<4xf32> -> tensor<f32>",
        "an index is an integer",
    ),
    "element of another dtype": (
        "%y = loop.load %a[%zero] : tensor<4xf32> -> tensor<f64>",
        "an element of",
    ),
    "a store of an array": (
        "loop.store %a : tensor<4xf32>, %c[%zero] : tensor<4xf32>",
        "an element is a scalar",
    ),
    "a loop that yields less": (
        """%s = loop.for %i = %zero to %m step %one axis "i" iter (%t : tensor<f32> = %x :
           tensor<f32>) { loop.yield }""",
        "a loop yields 0 values, expected 1",
    ),
    "a loop that carries another type": (
        """%s = loop.for %i = %zero to %m step %one axis "i" iter (%t : tensor<f32> = %m)
           { loop.yield %t : tensor<f32> }""",
        "what a loop carries is tensor<f32>, found tensor<i64>",
    ),
    "bounds of floats": (
        'loop.for %i = %x : tensor<f32> to %m step %one axis "i" { loop.yield }',
        "a bound of a loop is an integer",
    ),
    "branches that disagree": (
        """%s = loop.if %yes : tensor<i1> -> (tensor<f32>) { loop.yield %x : tensor<f32> } else
           { loop.yield %m : tensor<i64> }""",
        "what a branch yields is tensor<f32>, found tensor<i64>",
    ),
    "a while without a condition": (
        "loop.while { loop.yield } do { loop.yield }",
        "ends with loop.condition",
    ),
    "a local array of other rank": (
        '%l = loop.local "f32" [%one] = %x : tensor<f32> -> tensor<1x1xf32>',
        "1 sizes for a local array",
    ),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD)
def test_what_is_refused(body: str, message: str) -> None:
    module = parse_ir(NEST.format(body=body))
    with pytest.raises(VerifyException, match=message):
        module.verify()


def test_a_check_reads_back() -> None:
    text = """
    func.func @n(%ok: i1, %i: index) {
      tile.check %ok[%i, %i] of "A" sizes [4 : i64, 8 : i64] number 0 : i64
      func.return
    }"""
    printed = print_ir(parse_ir(text))
    assert print_ir(parse_ir(printed)) == printed
    wrong = parse_ir(text.replace("[%i, %i]", "[%i]"))
    with pytest.raises(VerifyException, match="1 indices for 2 sizes"):
        wrong.verify()
