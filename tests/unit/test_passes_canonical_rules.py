"""Every canonical rule keeps the value bit for bit, on the values at which identities break."""

import ast
import math

import numpy as np
import pytest
from building import Builder, context, kernel, specs
from special_values import assert_same_bits, specials
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import CompileError
from wia_compiler.passes.canonical_functions import holds
from wia_compiler.passes.canonical_rules import ALGEBRA, CANONICAL
from wia_compiler.passes.canonicalize import Canonicalize
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.rules import Rule
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue


def written(rule: Rule) -> ModuleOp:
    """A kernel of x, y and the condition c that computes a rule's pattern."""

    def body(builder: Builder, x: SSAValue, y: SSAValue, c: SSAValue) -> SSAValue:
        names = {"x": x, "y": y, "c": c}
        words = {"inf": math.inf, "true": True, "false": False}

        def build(tree: ast.expr) -> SSAValue:
            match tree:
                case ast.Name(id=name) if name in names:
                    return names[name]
                case ast.Name(id=name):
                    return builder.literal(words[name])
                case ast.UnaryOp(operand=ast.Name()):
                    return builder.literal(-math.inf)
                case ast.Call(func=ast.Name(id=name), args=arguments):
                    return builder.op(name, *[build(each) for each in arguments])
                case _:
                    return builder.literal(ast.literal_eval(tree))

        return build(rule.tree)

    return kernel(["x", "y", "c"], body)


def arguments(dtype: str) -> list[np.ndarray]:
    """Every pair of special values, with either condition."""
    values = specials(dtype)
    grid = np.meshgrid(values, values, [False, True], indexing="ij")
    return [np.ascontiguousarray(array).reshape(-1) for array in grid]


def fires(rule: Rule, dtype: str) -> bool:
    """Apply a rule to its own pattern in a dtype and compare values; whether it fired."""
    x, y, c = arguments(dtype)
    module = written(rule)
    count = len(x)
    try:
        given = specs(x=f"{count}x{dtype}", y=f"{count}x{dtype}", c=f"{count}xbool")
        InferShapes(given).run(module, context())
    except CompileError:
        return False
    before = run_module(module, "k", [x, y, c])
    made = context()
    Canonicalize().run(module, made)
    module.verify()
    assert_same_bits(run_module(module, "k", [x, y, c])[0], before[0])
    return rule.title in [decision.candidate for decision in made.decisions]


@pytest.mark.parametrize("rule", ALGEBRA, ids=lambda rule: rule.title)
def test_a_rule_keeps_the_value_in_every_dtype(rule: Rule) -> None:
    assert any([fires(rule, dtype) for dtype in DTYPES])


@pytest.mark.parametrize("pattern", ["add(x, 0.0)", "sub(x, -0.0)", "mul(x, 0.0)", "sub(x, x)"])
def test_what_is_not_an_identity_of_floats_is_no_rule(pattern: str) -> None:
    rule = Rule(pattern, "x")
    module = written(rule)
    InferShapes(specs(x="4xf32", y="4xf32", c="4xbool")).run(module, context())
    made = context()
    Canonicalize().run(module, made)
    assert made.decisions == []


def test_one_is_not_true() -> None:
    module = kernel(["x"], lambda b, x: [b.op("eq", x, 1), b.op("ne", x, 0)])
    x = np.array([0, 1, 2], np.int32)
    InferShapes(specs(x="3xi32")).run(module, context())
    Canonicalize().run(module, context())
    module.verify()
    equal, other = run_module(module, "k", [x])
    assert (equal.tolist(), other.tolist()) == ([False, True, False], [False, True, True])


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("divisor", [8.0, -0.25, 2.0**14, 2.0**-14, 2.0**15, 2.0**-15, 3.0, 1e-3])
def test_division_by_a_power_of_two(dtype: str, divisor: float) -> None:
    x = specials(dtype)
    module = kernel(["x"], lambda b, x: b.op("div", x, divisor))
    InferShapes(specs(x=f"{len(x)}x{dtype}")).run(module, context())
    before = run_module(module, "k", [x])
    Canonicalize().run(module, context())
    assert_same_bits(run_module(module, "k", [x])[0], before[0])
    text = str(module)
    inexact = divisor in (3.0, 1e-3) or (dtype == "f16" and divisor in (2.0**15, 2.0**-15))
    if divisor != 2.0**-15 or dtype != "f16":
        assert ("wia.div" in text) == (inexact and divisor != 2.0**-15)


@pytest.mark.parametrize("narrow", DTYPES)
def test_a_dtype_that_holds_another_loses_nothing(narrow: str) -> None:
    x = specials(narrow)
    holding = [wide for wide in DTYPES.values() if holds(wide, DTYPES[narrow])]
    assert DTYPES[narrow] in holding
    for wide in holding:
        with np.errstate(all="ignore"):
            assert_same_bits(x.astype(wide.numpy).astype(x.dtype), x)


@pytest.mark.parametrize("source", DTYPES)
def test_casts_of_casts_keep_the_value(source: str) -> None:
    pairs = [(middle, target) for middle in DTYPES for target in DTYPES]

    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        return [b.op("cast", b.op("cast", x, dtype=one), dtype=other) for one, other in pairs]

    x = specials(source)
    module = kernel(["x"], body)
    InferShapes(specs(x=f"{len(x)}x{source}")).run(module, context())
    before = run_module(module, "k", [x])
    made = context()
    Canonicalize().run(module, made)
    module.verify()
    assert made.decisions
    for pair, found, expected in zip(pairs, run_module(module, "k", [x]), before, strict=True):
        assert (pair, found.dtype) == (pair, expected.dtype)
        assert_same_bits(found, expected)


def test_rules_are_unique_and_named() -> None:
    titles = [rule.title for rule in CANONICAL]
    assert len(set(titles)) == len(titles)


def test_structure_rules_leave_nothing_to_do() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        moved = b.op("permute", b.op("transpose", x, dim0=0, dim1=1), dims=(1, 0, 2))
        flat = b.op("reshape", b.op("flatten", moved), shape=(2, 3, 4))
        wide = b.op("broadcast", b.op("broadcast", y, shape=(3, 4)), shape=(2, 3, 4))
        tall = b.op("reduce_max", b.op("reshape", y, shape=(4, 1)), dim=1, keepdim=False)
        return [b.op("add", flat, wide), tall]

    module = kernel(["x", "y"], body)
    InferShapes(specs(x="2x3x4xf32", y="4xf32")).run(module, context())
    made = context()
    Canonicalize().run(module, made)
    names = [op.name for op in module.walk() if op.name.startswith("wia.")]
    assert names == ["wia.add"]
    assert {decision.kind for decision in made.decisions} == {"rewrite"}
