"""Random kernels of what the array can spell, against numpy with operands rounded to bf16."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.tpu_kernels import Array, as_bf16, run_text
from wia_compiler.base.errors import TargetError

SHAPES = [(3, 5), (17,), (2, 3, 4), (130, 6), (1, 7), (5, 1), (2, 129, 3), (6, 35)]


@dataclass
class Kernel:
    """A kernel under construction: its inputs, and an expression with its value in f64."""

    data: st.DataObject
    rng: np.random.Generator
    inputs: dict[str, Array] = field(default_factory=dict)

    def expression(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        """A random expression of that shape."""
        kinds = ["input"]
        if depth > 0:
            kinds += ["relu", "add", "add", "reshape"]
            kinds += ["matmul", "matmul", "transpose"] if len(shape) > 1 else []
        return getattr(self, "_" + self.data.draw(st.sampled_from(kinds)))(depth - 1, shape)

    def _input(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        name = f"X{len(self.inputs)}"
        self.inputs[name] = self.rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 2 and self.data.draw(st.booleans()):
            self.inputs[name] = np.asfortranarray(self.inputs[name])
        return name, self.inputs[name].astype(np.float64)

    def _relu(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        text, value = self.expression(depth, shape)
        return f"relu({text})", np.maximum(value, 0)

    def _add(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        left, value = self.expression(depth, shape)
        ones = self.data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
        small = tuple(1 if one else size for one, size in zip(ones, shape, strict=True))
        right, other = self.expression(depth, small)
        return f"({left} + {right})", value + other

    def _matmul(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        inner = self.data.draw(st.sampled_from([1, 2, 5, 130]))
        batch = shape[:-2] if self.data.draw(st.booleans()) else ()
        left, a = self.expression(depth, (*shape[:-1], inner))
        right, b = self.expression(depth, (*batch, inner, shape[-1]))
        product = as_bf16(a.astype(np.float32)) @ as_bf16(b.astype(np.float32))
        return f"({left} @ {right})", product

    def _transpose(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        text, value = self.expression(depth, (*shape[:-2], shape[-1], shape[-2]))
        return f"transpose({text}, -1, -2)", np.swapaxes(value, -1, -2)

    def _reshape(self, depth: int, shape: tuple[int, ...]) -> tuple[str, Array]:
        count = int(np.prod(shape))
        others = [(count,), (1, count), (count, 1)]
        others += [(count // n, n) for n in (2, 3, 5) if count % n == 0]
        text, value = self.expression(depth, self.data.draw(st.sampled_from(others)))
        return f"reshape({text}, shape=[{', '.join(map(str, shape))}])", value.reshape(shape)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), st.integers(0, 2**32 - 1))
def test_random_kernels(data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    kernel = Kernel(data, np.random.default_rng(seed))
    expression, expected = kernel.expression(3, shape)
    inputs = ", ".join(f"input {name}: tensor" for name in kernel.inputs)
    text = f"kernel k({inputs}, output C: tensor) {{ C = {expression}; }}"
    try:
        (found,) = run_text(text, **kernel.inputs).outputs
    except TargetError as error:
        # A reshape that fuses into an op of other sizes may be no rectangle of memory.
        assert "tpu:spec cannot move" in str(error) and "reshape" in text
        return
    # A sum of f32 that rounds to bf16 the other way round moves a product by up to 2⁻⁸ of its size.
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.03 * scale)
