"""Random programs: every high-level pass keeps what a kernel computes, bit for bit."""

from dataclasses import dataclass, field

import numpy as np
from building import Builder, context, kernel, spec, specs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from special_values import assert_same_bits, specials
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp, make_op
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.pipeline import high_passes, mid_passes
from wia_compiler.passes.verifier import verify_high_level
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

UNARY = ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "tanh", "floor", "ceil", "round")
COMPOSITE = ("relu", "sigmoid", "silu", "gelu")
BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "pow", "min", "max")
COMPARISON = ("eq", "ne", "lt", "le", "gt", "ge")
FOLDS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean")
ROWS = ("softmax", "layer_norm", "rms_norm")
ELEMENTWISE = ("unary", "binary", "binary", "composite", "comparison", "where", "cast", "clamp")
MOVEMENT = ("transpose", "permute", "reshape", "broadcast")
KINDS = (*ELEMENTWISE, *MOVEMENT, "fold", "rows", "matmul")
NUMBERS = (0, 1, 2, -1, 8, 0.0, -0.0, 1.0, 2.0, 0.5, 3.0)
SHAPES = ("", "4x", "3x4x", "4x4x", "3x1x", "1x", "2x3x4x", "0x4x")

SETTINGS = settings(
    derandomize=True,
    max_examples=80,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass
class Growing:
    """A kernel in the making; ops are tried on values made so far, and left out if refused."""

    draw: st.DrawFn
    builder: Builder
    values: list[SSAValue] = field(default_factory=list[SSAValue])

    def pick(self) -> SSAValue:
        """A value made so far, recent ones more often."""
        index = self.draw(st.integers(0, len(self.values) - 1))
        return self.values[max(index, self.draw(st.integers(0, len(self.values) - 1)))]

    def number(self, like: SSAValue) -> SSAValue:
        """A constant in the dtype of a value."""
        dtype = self.dtype_of(like)
        number = self.draw(st.sampled_from(NUMBERS))
        whole = not DTYPES[dtype].is_float
        value: bool | int | float = (abs(int(number)) % 2 == 1) if dtype == "bool" else number
        if whole and dtype != "bool":
            value = abs(int(number))
        from wia_compiler.dialects.types import tensor_type

        return self.builder.add(ConstantOp(value, tensor_type((), DTYPES[dtype])))

    def dtype_of(self, value: SSAValue) -> str:
        """The name of a value's dtype."""
        from wia_compiler.dialects.types import dtype_of

        return dtype_of(value.type).name

    def step(self) -> None:
        """Add one op, if its rule takes the operands."""
        kind = self.draw(st.sampled_from(KINDS))
        x = self.pick()
        attributes: dict[str, object] = {}
        operands: list[SSAValue] | dict[str, SSAValue] = [x]
        match kind:
            case "unary":
                name = self.draw(st.sampled_from(UNARY))
            case "composite":
                name = self.draw(st.sampled_from(COMPOSITE))
            case "binary" | "comparison":
                name = self.draw(st.sampled_from(BINARY if kind == "binary" else COMPARISON))
                other = self.number(x) if self.draw(st.booleans()) else self.pick()
                operands = [x, other] if self.draw(st.booleans()) else [other, x]
            case "where":
                name, operands = "where", [self.pick(), x, self.pick()]
            case "fold":
                name = self.draw(st.sampled_from(FOLDS))
                attributes["dim"] = self.draw(st.sampled_from((None, 0, -1)))
                attributes["keepdim"] = self.draw(st.booleans())
            case "rows":
                name, operands = self.draw(st.sampled_from(ROWS)), {"input": x}
            case "clamp":
                name, operands = "clamp", {"input": x, "min": self.number(x)}
            case "matmul":
                name, operands = "matmul", [x, self.pick()]
            case "cast":
                name = "cast"
                attributes["dtype"] = self.draw(st.sampled_from(list(DTYPES)))
            case "reshape":
                name = "reshape"
                attributes["shape"] = self.draw(
                    st.sampled_from(((-1,), (4, -1), (1, -1, 1), (2, -1)))
                )
            case "broadcast":
                name, attributes["shape"] = (
                    "broadcast",
                    self.draw(st.sampled_from(((3, 4), (2, 3, 4)))),
                )
            case _:
                name = kind
                attributes = {"dims": (1, 0)} if kind == "permute" else {}
        self.add(name, operands, attributes)

    def add(
        self,
        name: str,
        operands: list[SSAValue] | dict[str, SSAValue],
        attributes: dict[str, object],
    ) -> None:
        """Append an op unless its rule refuses."""
        try:
            op = make_op(name, operands, attributes)  # pyright: ignore[reportArgumentType]
        except InferenceError:
            return
        self.values.append(self.builder.add(op))


@dataclass(frozen=True)
class Program:
    """A kernel as text, short enough to be shown when it fails, and what it takes."""

    text: str
    inputs: dict[str, str]

    @property
    def module(self) -> ModuleOp:
        """The kernel."""
        return parse_ir(self.text)

    def __repr__(self) -> str:
        return f"Program({self.inputs}):\n{print_ir(self.module)}"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A specialised kernel of up to 15 ops and its inputs."""
    dtype = draw(st.sampled_from(("f32", "f32", "f16", "bf16", "f64", "i32", "i8", "u8")))
    names = ("a", "b", "c")[: draw(st.integers(1, 3))]
    inputs = {name: f"{draw(st.sampled_from(SHAPES))}{dtype}" for name in names}

    def body(builder: Builder, *arguments: SSAValue) -> list[SSAValue]:
        from wia_compiler.dialects.types import type_of

        for value, text in zip(arguments, inputs.values(), strict=True):
            value._type = type_of(spec(text))  # pyright: ignore
        growing = Growing(draw, builder, list(arguments))
        for _ in range(draw(st.integers(1, 15))):
            growing.step()
        results = draw(st.integers(1, 3))
        return [growing.values[-1], *[growing.pick() for _ in range(results - 1)]]

    return Program(print_ir(kernel(list(inputs), body), locations=True), inputs)


def values_of(each: TensorSpec, seed: int) -> np.ndarray:
    """Random values with special ones among them."""
    random = np.random.default_rng(seed)
    special = specials(each.dtype.name)
    flat = random.normal(scale=2, size=each.num_elements)
    usual = flat.astype(np.int64) if each.dtype.is_integer else flat
    with np.errstate(all="ignore"):
        usual = usual.astype(each.dtype.numpy)
    chosen = random.choice(special, each.num_elements)
    mixed = np.where(random.random(each.num_elements) < 0.2, chosen, usual)
    return mixed.astype(each.dtype.numpy).reshape(each.shape)


FACTS = (
    TargetFacts("roomy", register_capacity=200, bytes_per_flop=0.05, launch_cost_bytes=10**7),
    TargetFacts(
        "tight", register_capacity=24, bytes_per_flop=0.2, launch_cost_bytes=0, vector_bytes=16
    ),
)


@SETTINGS
@given(program=programs(), facts=st.sampled_from(FACTS), seed=st.integers(0, 9))
def test_every_pass_keeps_the_result(program: Program, facts: TargetFacts, seed: int) -> None:
    module, arguments = program.module, specs(**program.inputs)
    arrays = [values_of(each.spec, seed + n) for n, each in enumerate(arguments)]
    expected = run_module(module, "k", arrays)
    made = context(facts=facts)
    for step in high_passes(arguments):
        step.run(module, made)
        module.verify()
        verify_high_level(module, "k", step.name)
        text = print_ir(module)
        assert print_ir(parse_ir(text)) == text
        found = run_module(module, "k", arrays)
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one, other)


@SETTINGS
@given(program=programs())
def test_text_with_locations_reads_back(program: Program) -> None:
    assert print_ir(program.module, locations=True) == program.text


@SETTINGS
@given(program=programs(), facts=st.sampled_from(FACTS))
def test_fusion_records_every_edge_once(program: Program, facts: TargetFacts) -> None:
    module = program.module
    *early, fusion, _ = high_passes(specs(**program.inputs))
    for step in early:
        step.run(module, context())
    ops = [op for op in module.walk() if isinstance(op, TensorOp)]
    edges = [(op, user) for op in ops for user in ops if op.result in user.arguments]
    made = context(facts=facts)
    made.ids = {id(op): str(number) for number, op in enumerate(ops)}
    fusion.run(module, made)
    vertical = [decision for decision in made.decisions if decision.kind == "vertical"]
    assert [each.subjects for each in vertical] == [
        (made.id_of(op), made.id_of(user)) for op, user in edges
    ]
    for (op, user), decision in zip(edges, vertical, strict=True):
        within = user.parent_op() is not module.body.block.first_op
        repeated = "times_computed" in decision.numbers and decision.taken
        assert decision.taken == (within and (repeated or op.parent is user.parent))
        assert decision.taken != ("would_fuse_if" in decision.numbers)
        assert decision.reason


@SETTINGS
@given(program=programs(), facts=st.sampled_from(FACTS))
def test_every_kernel_that_fusion_makes_is_one_nest(program: Program, facts: TargetFacts) -> None:
    module, made = program.module, context(facts=facts)
    for step in (*high_passes(specs(**program.inputs)), *mid_passes(())):
        made.decisions.clear()
        step.run(module, made)
    module.verify()
    assert [decision.reason for decision in made.decisions if not decision.taken] == []
