"""Random texts of up to 30 ops: with any pass left out, everywhere, the results are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import wia_compiler as wia
from executors import listed
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from special_values import assert_same_bits, specials
from stage_modules import arguments_of
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Source
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import REQUIRED, InferenceError
from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.pipeline import high_passes, mid_passes
from wia_compiler.reference.tile import run_tile_module

OPTIONAL = ("canonicalize", "fold-constants", "cse", "dce", "fusion")
FACTS = TargetFacts("roomy", register_capacity=200, bytes_per_flop=0.05, launch_cost_bytes=10**7)
SETTINGS = settings(
    derandomize=True,
    max_examples=20,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Ops of which every executor must give the same bits, and attributes to try them with.
EXACT: dict[str, tuple[dict[str, Any], ...]] = {
    **dict.fromkeys(("neg", "abs", "floor", "ceil", "round", "relu", "sqrt", "sign"), ({},)),
    **dict.fromkeys(("add", "sub", "mul", "div", "floordiv", "mod", "min", "max"), ({},)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "where", "bitwise_xor"), ({},)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_not"), ({},)),
    **dict.fromkeys(("reduce_max", "reduce_min"), ({"dim": 0, "keepdim": True}, {"dim": -1}, {})),
    "cast": tuple({"dtype": name} for name in ("f32", "i32", "f16", "bool", "u8")),
    "transpose": ({},),
    "permute": ({"dims": (1, 0)}, {"dims": (2, 0, 1)}),
    "reshape": ({"shape": (-1,)}, {"shape": (4, -1)}, {"shape": (-1, 2, 1)}),
    "broadcast": ({"shape": (3, 4)}, {"shape": (2, 3, 4)}),
    "flip": ({"dims": (0,)},),
    "slice": ({"starts": (1,)}, {"starts": (None, 0), "stops": (None, -1)}, {"steps": (-1,)}),
    "pad": ({"pad": (1, 0)}, {"pad": (0, 1, 1, 0)}),
    "argmax": ({"dim": 0}, {"dim": None}),
    "squeeze": ({"dim": None},),
    "unsqueeze": ({"dim": 0},),
    "tril": ({},),
    "roll": ({"shifts": 1, "dims": 0},),
}
# Ops that keep values between -1 and 1 small, and errors with them.
SMOOTH: dict[str, tuple[dict[str, Any], ...]] = {
    **dict.fromkeys(("tanh", "sigmoid", "erf", "sin", "softsign"), ({},)),
    **dict.fromkeys(("add", "mul", "max", "lerp"), ({},)),
    **dict.fromkeys(("reduce_mean", "variance"), ({"dim": 0, "keepdim": True}, {"dim": -1})),
    **dict.fromkeys(("softmax", "cumsum"), ({"dim": 0}, {"dim": -1})),
    "matmul": ({},),
    "transpose": ({},),
    "broadcast": ({"shape": (3, 4)},),
}
SHAPES = ((), (4,), (3, 4), (4, 4), (3, 1), (1,), (2, 3, 4), (0, 4), (17,))


@dataclass(frozen=True)
class Program:
    """A text with one kernel ``k``, and the specs of its inputs."""

    text: str
    inputs: tuple[TensorSpec, ...]

    def arrays(self, seed: int, *, special: bool) -> list[np.ndarray[Any, Any]]:
        """Operands, with NaN, infinities and ends of ranges among them where wanted."""
        random = np.random.default_rng(seed)
        return [_values(random, each, special) for each in self.inputs]


def _values(random: np.random.Generator, spec: TensorSpec, special: bool) -> np.ndarray[Any, Any]:
    usual = random.uniform(-1, 1, spec.shape)
    if not special:
        return usual.astype(spec.dtype.numpy)
    usual = np.rint(usual * 6) if spec.dtype.is_integer else usual * 3
    with np.errstate(all="ignore"):
        made = usual.astype(spec.dtype.numpy)
    chosen = random.choice(specials(spec.dtype.name), spec.shape)
    return np.where(random.random(spec.shape) < 0.2, chosen, made).astype(spec.dtype.numpy)


def _call(name: str, operands: list[str], attributes: dict[str, Any]) -> str:
    """The call of an op in the language, attributes by name."""
    given = [*operands, *(f"{key}={_written(value)}" for key, value in attributes.items())]
    return f"{name}({', '.join(given)})"


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_written(each) for each in value)}]"
    return (
        {True: "true", False: "false", None: "none"}.get(value, str(value))
        if (value is None or isinstance(value, bool))
        else str(value)
    )


@st.composite
def programs(
    draw: st.DrawFn, ops: dict[str, tuple[dict[str, Any], ...]], dtypes: tuple[str, ...]
) -> Program:
    """A kernel of up to 30 ops, each on values made so far, recent ones more often."""
    dtype = DTYPES[draw(st.sampled_from(dtypes))]
    inputs = tuple(
        TensorSpec(draw(st.sampled_from(SHAPES)), dtype) for _ in range(draw(st.integers(1, 3)))
    )
    values = {"abc"[number]: spec for number, spec in enumerate(inputs)}
    lines = list[str]()
    wanted = draw(st.integers(1, 30))
    for _ in range(3 * wanted):
        if len(lines) == wanted:
            break
        name = draw(st.sampled_from(sorted(ops)))
        attributes = draw(st.sampled_from(ops[name]))
        row = DECLARATIONS[name]
        tensors = [each.name for each in row.tensor_parameters if each.kind == "tensor"]
        names = list(values)
        operands = [names[max(draw(_place(names)), draw(_place(names)))] for _ in tensors]
        defaults = {
            each.name: each.default
            for each in row.attribute_parameters
            if each.default is not REQUIRED
        }
        try:
            specs = row.operands(tensors, [values[each] for each in operands])
            spec = row.infer(specs, {**defaults, **attributes})
        except InferenceError:
            continue
        if spec.num_elements > 600:
            continue
        made = f"t{len(lines)}"
        values[made] = spec
        lines.append(f"{made} = {_call(name, operands, attributes)};")
    kept = [list(values)[-1], *draw(st.lists(st.sampled_from(list(values)), max_size=4))]
    header = ", ".join(f"input {name}: tensor" for name in list(values)[: len(inputs)])
    body = "\n  ".join([*lines, f"return {', '.join(kept)};"])
    return Program(f"kernel k({header}) {{\n  {body}\n}}", inputs)


def _place(names: list[str]) -> st.SearchStrategy[int]:
    return st.integers(0, len(names) - 1)


def interpreted(
    kernel: wia.Kernel, arrays: list[np.ndarray[Any, Any]], like: list[Any], without: str | None
) -> list[Any]:
    """What the mid level computes when one pass is left out."""
    arguments = arguments_of(kernel, arrays)
    module = kernel.unit.program.module.clone()
    for step in (*high_passes(arguments), *mid_passes(arguments)):
        if step.name != without:
            step.run(module, PassContext(Source(kernel.source), "k", FACTS))
    module.verify()
    made = [np.zeros_like(each) for each in like]
    run_tile_module(module, arrays, made)
    return made


@SETTINGS
@given(
    programs(EXACT, ("f32", "f16", "bf16", "i32", "i8", "u8")),
    st.integers(0, 9),
    st.sampled_from(OPTIONAL),
)
def test_exact_programs_give_the_same_bits_everywhere(
    program: Program, seed: int, without: str
) -> None:
    kernel = wia.compile(program.text).k
    arrays = program.arrays(seed, special=True)
    expected = listed(wia.reference(kernel, *arrays))
    results = {
        "cpu": listed(kernel(*arrays)),
        "all passes": interpreted(kernel, arrays, expected, None),
        f"without {without}": interpreted(kernel, arrays, expected, without),
    }
    for found in results.values():
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one, other)


@SETTINGS
@given(programs(SMOOTH, ("f64",)), st.integers(0, 9), st.sampled_from(OPTIONAL))
def test_smooth_programs_agree_everywhere(program: Program, seed: int, without: str) -> None:
    kernel = wia.compile(program.text).k
    arrays = program.arrays(seed, special=False)
    expected = listed(wia.reference(kernel, *arrays))
    results = {
        "cpu": listed(kernel(*arrays)),
        f"without {without}": interpreted(kernel, arrays, expected, without),
    }
    for executor, found in results.items():
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=executor)
