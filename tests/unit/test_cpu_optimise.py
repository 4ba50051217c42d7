"""Which low-level code is left to LLVM's optimiser."""

import pytest
from wia_compiler.backends.cpu.optimise import needs_optimiser
from wia_compiler.dialects.text import parse_ir

LOOP = """
func.func @nest(%a: memref<64xf32>, %b: memref<64x64xf32>, %n: index, %v: vector<8xf32>) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %number = arith.constant 1.0 : f32
  scf.for %i = %zero to %n step %one {{
    {body}
  }}
  func.return
}}
"""
BODIES = {
    "nothing": ("", False),
    "vectors": ("vector.store %v, %a[%i] : memref<64xf32>, vector<8xf32>", False),
    "a scalar for all lanes": (
        "%x = memref.load %a[%i] : memref<64xf32>\n"
        "%y = vector.broadcast %x : f32 to vector<8xf32>\n"
        "vector.store %y, %a[%zero] : memref<64xf32>, vector<8xf32>",
        False,
    ),
    "scalars read": ("%x = memref.load %a[%i] : memref<64xf32>", True),
    "scalars side by side": ("memref.store %number, %a[%i] : memref<64xf32>", True),
    "a computed place": (
        "%j = arith.addi %i, %one : index\nmemref.store %number, %a[%j] : memref<64xf32>",
        True,
    ),
    "a column": ("memref.store %number, %b[%i, %zero] : memref<64x64xf32>", False),
    "a loop of vectors": (
        "scf.for %j = %zero to %n step %one {\n"
        "vector.store %v, %a[%j] : memref<64xf32>, vector<8xf32>\n}",
        False,
    ),
    "a loop of scalars inside": (
        "scf.for %j = %zero to %n step %one {\nmemref.store %number, %a[%j] : memref<64xf32>\n}",
        True,
    ),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES)
def test_loops_on_scalars_are_left_to_the_optimiser(body, expected):
    assert needs_optimiser(parse_ir(LOOP.format(body=body))) is expected


SHARED = """
func.func @nest(%a: memref<64xf32>, %v: vector<8xf32>) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %number = arith.constant 1.0 : f32
  "scf.parallel"(%zero, %one, %one) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
  ^bb0(%i: index):
    {body}
    scf.reduce
  }}) : (index, index, index) -> ()
  func.return
}}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("memref.store %number, %a[%i] : memref<64xf32>", True),
        ("vector.store %v, %a[%i] : memref<64xf32>, vector<8xf32>", False),
        (
            "scf.for %j = %zero to %i step %one {\n"
            "vector.store %v, %a[%j] : memref<64xf32>, vector<8xf32>\n}",
            False,
        ),
        (
            "scf.for %j = %zero to %i step %one {\n"
            "memref.store %number, %a[%j] : memref<64xf32>\n}",
            True,
        ),
    ],
    ids=["scalars", "vectors", "a loop of vectors inside", "a loop of scalars inside"],
)
def test_loops_that_threads_share_are_loops_too(body, expected):
    assert needs_optimiser(parse_ir(SHARED.format(body=body))) is expected


def test_code_without_loops_is_not():
    text = """
func.func @nest(%a: memref<f32>) {
  %x = memref.load %a[] : memref<f32>
  memref.store %x, %a[] : memref<f32>
  func.return
}
"""
    assert not needs_optimiser(parse_ir(text))
