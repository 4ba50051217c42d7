"""Random programs on a GPU, thread by thread, against the reference."""

import random

import numpy as np
import wia_compiler as wia
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.gpu_programs import interpret

SIZES = (1, 2, 3, 7, 17, 33, 64, 70)
MAX_ELEMENTS = 6000
UNARY = ("tanh({x} * 0.3)", "abs({x})", "relu({x})", "exp({x} * 0.1)", "where({x} > 0.1, {x}, 0.5)")


class Program:
    """A text under construction: values by name, with their shapes."""

    def __init__(self, seed: int):
        self.pick = random.Random(seed)
        rows, depth, columns = (self.pick.choice(SIZES) for _ in range(3))
        self.inputs = {
            "A": (rows, depth),
            "B": (depth, columns),
            "C": (rows, columns),
            "v": (columns,),
            "u": (rows, 1),
        }
        self.shapes = dict(self.inputs)
        self.lines: list[str] = []
        for _ in range(self.pick.randint(1, 6)):
            self.grow()

    def grow(self) -> None:
        step = self.pick.choice((self.unary, self.binary, self.fold, self.matmul, self.other))
        made = step()
        if made is None or int(np.prod(made[1])) > MAX_ELEMENTS:
            return
        name = f"t{len(self.lines)}"
        self.lines.append(f"let {name} = {made[0]};")
        self.shapes[name] = made[1]

    def any(self) -> tuple[str, tuple[int, ...]]:
        name = self.pick.choice(list(self.shapes))
        return name, self.shapes[name]

    def unary(self):
        name, shape = self.any()
        return self.pick.choice(UNARY).format(x=name), shape

    def binary(self):
        (a, first), (b, second) = self.any(), self.any()
        try:
            shape = np.broadcast_shapes(first, second)
        except ValueError:
            return None
        return f"{a} {self.pick.choice('+-*')} {b}", shape

    def fold(self):
        name, shape = self.any()
        if not shape:
            return None
        axis, keep = self.pick.randrange(len(shape)), self.pick.choice((True, False))
        kind = self.pick.choice(("sum", "max", "min", "mean"))
        text = f"reduce_{kind}({name}, axis={axis}, keepdims={str(keep).lower()})"
        left = [1 if n == axis else s for n, s in enumerate(shape) if keep or n != axis]
        return text, tuple(left)

    def matmul(self):
        pairs = [
            (a, b)
            for a, first in self.shapes.items()
            for b, second in self.shapes.items()
            if len(first) == len(second) == 2 and first[1] == second[0]
        ]
        a, b = self.pick.choice(pairs)
        return f"({a} @ {b}) * 0.1", (self.shapes[a][0], self.shapes[b][1])

    def other(self):
        name, shape = self.any()
        if not shape:
            return None
        count = int(np.prod(shape))
        return self.pick.choice(
            (
                (f"softmax({name}, axis={self.pick.choice((0, -1))})", shape),
                (f"reshape({name}, shape=[{count}])", (count,)),
                (f"cast(cast({name}, f16), f32)", shape),
                (f"transpose({name}) + 0.5", (*shape[:-2], *shape[-2:][::-1])),
            )
            if len(shape) > 1
            else ((f"softmax({name}, axis=-1)", shape),)
        )

    def text(self) -> str:
        made = [name for name in self.shapes if name not in self.inputs]
        outputs = self.pick.sample(made, min(len(made), self.pick.choice((1, 2))))
        parameters = [f"input {name}: tensor" for name in self.inputs]
        parameters += [f"output O{n}: tensor" for n in range(len(outputs))]
        written = [f"O{n} = {name};" for n, name in enumerate(outputs)]
        return f"kernel k({', '.join(parameters)}) {{ {' '.join([*self.lines, *written])} }}"


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.integers(0, 10**9))
def test_random_programs(seed):
    program = Program(seed)
    if not program.lines:
        return
    text = program.text()
    numbers = np.random.default_rng(seed)
    arrays = [
        numbers.standard_normal(shape).astype(np.float32) for shape in program.inputs.values()
    ]
    if seed % 3 == 0:
        arrays[0] = np.asfortranarray(arrays[0])
    expected = wia.reference(wia.compile(text)["k"], *arrays)
    expected = expected if isinstance(expected, tuple | list) else [expected]
    for found, wanted in zip(interpret(text, arrays), expected, strict=True):
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=3e-3, atol=3e-3 * scale, err_msg=text)
