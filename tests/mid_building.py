"""Kernels for tests of the mid level, and what their nests compute on numpy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from wia_compiler.base.dtypes import BOOL, DTYPES, DType
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.types import TensorSpec, Value, tensor_type, type_of
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, YieldOp, make_op
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.tile import run_tile_module
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue


class Ops:
    """Appends ops of the language to a block, each with a token of its own."""

    def __init__(self, block: Block):
        self.block = block
        self.token = 0

    def append(self, op: Operation, hint: str | None = None) -> SSAValue:
        line = self.token + 1
        op.location = location(Origin(self.token, Span(line, 1, line, 9)))
        self.token += 1
        self.block.add_op(op)
        op.results[0].name_hint = hint
        return op.results[0]

    def constant(
        self, value: bool | int | float, dtype: str, shape: Sequence[int] = ()
    ) -> SSAValue:
        return self.append(ConstantOp(value, tensor_type(shape, DTYPES[dtype])))

    def __getattr__(self, name: str) -> Callable[..., SSAValue]:
        def call(*operands: SSAValue, hint: str | None = None, **attributes: Value) -> SSAValue:
            return self.append(make_op(name, list(operands), attributes), hint)

        return call


Body = Callable[..., SSAValue | Sequence[SSAValue]]


def spec(shape: Sequence[int], dtype: str = "f32") -> TensorSpec:
    return TensorSpec(tuple(shape), DTYPES[dtype])


def kernel(inputs: Sequence[TensorSpec], body: Body, *, fused: bool = False) -> ModuleOp:
    """A module with one kernel ``k``; with ``fused`` its ops are one group."""
    block = Block(arg_types=[type_of(each) for each in inputs])
    for value, name in zip(block.args, "abcdefgh", strict=False):
        value.name_hint = name
    results = list[SSAValue]()
    if fused:
        group = FusedOp("group", block.args, [])
        made = _listed(body(Ops(group.body.block), *group.body.block.args))
        group.body.block.add_op(YieldOp(made))
        types = [value.type for value in made]
        whole = FusedOp("group", block.args, types, group.detach_region(group.body))
        block.add_op(whole)
        results = list(whole.outputs)
    else:
        results = _listed(body(Ops(block), *block.args))
    block.add_op(ReturnOp(*results))
    type = FunctionType.from_lists(block.arg_types, [value.type for value in results])
    module = ModuleOp([FuncOp("k", type, Region(block))])
    module.verify()
    return module


def _listed(values: SSAValue | Sequence[SSAValue]) -> list[SSAValue]:
    return [values] if isinstance(values, SSAValue) else list(values)


def lowered(
    module: ModuleOp, strides: Sequence[tuple[int, ...] | None] = ()
) -> tuple[ModuleOp, PassContext]:
    """The module's nests; ``module`` itself is left as it is."""
    copy = module.clone()
    context = PassContext(Source(""), "k", TargetFacts("test", 64, 0.1, 100_000))
    LowerToNestsPass(strides).run(copy, context)
    copy.verify()
    return copy, context


def element_strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def run(nests: ModuleOp, arrays: Sequence[Any], outputs: Sequence[TensorSpec]) -> list[Any]:
    """What a mid-level module computes."""
    made = [np.zeros(each.shape, each.dtype.numpy) for each in outputs]
    run_tile_module(nests, arrays, made)
    return made


def result_specs(module: ModuleOp) -> list[TensorSpec]:
    from wia_compiler.dialects.types import spec_of

    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return [spec_of(type) for type in function.function_type.outputs.data]


def check(
    module: ModuleOp,
    arrays: Sequence[np.ndarray[Any, Any]],
    *,
    tolerance: float = 0.0,
    rewrite: Callable[[ModuleOp], None] | None = None,
) -> ModuleOp:
    """Nests (after ``rewrite``) and the reference agree, within ``tolerance`` of the largest."""
    wanted = run_module(module, "k", arrays)
    nests, _ = lowered(module, [element_strides(array) for array in arrays])
    if rewrite is not None:
        rewrite(nests)
    got = run(nests, arrays, result_specs(module))
    for have, want in zip(got, wanted, strict=True):
        assert have.shape == want.shape and have.dtype == want.dtype
        assert_close(have, want, tolerance)
    return nests


def assert_close(have: Any, want: Any, tolerance: float) -> None:
    if have.dtype.kind not in "iub":  # numpy knows no NaN in bf16
        have, want = have.astype(np.float64), want.astype(np.float64)
    if not tolerance or have.dtype.kind in "iub":
        np.testing.assert_array_equal(have, want)
        return
    largest = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    np.testing.assert_allclose(have, want, rtol=0, atol=tolerance * largest)


def sample(spec: TensorSpec, seed: int = 0, *, special: bool = False) -> np.ndarray[Any, Any]:
    """Numbers of any dtype; ``special`` puts NaN, infinities, zeros and extremes among them."""
    random = np.random.default_rng(seed)
    dtype = spec.dtype
    if dtype == BOOL:
        return random.integers(0, 2, spec.shape).astype(np.bool_)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        made = random.integers(limits.min, limits.max, spec.shape, dtype.numpy, endpoint=True)
        extremes = [0, 1, limits.min, limits.max, limits.max - 1 if dtype.kind == "uint" else -1]
    else:
        made = (random.standard_normal(spec.shape) * 3).astype(dtype.numpy)
        extremes = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 300.0, -40000.0]
    if special and made.size:
        flat = made.reshape(-1)
        places = random.integers(0, flat.size, flat.size // 2)
        flat[places] = random.choice(np.asarray(extremes), len(places)).astype(dtype.numpy)
    return made


def tolerance_of(dtype: DType) -> float:
    """A few units in the last place of a dtype's largest result."""
    return {"f64": 1e-14, "f32": 3e-6, "f16": 2e-3, "bf16": 2e-2}.get(dtype.name, 0.0)
