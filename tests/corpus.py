"""Programs that tests of every stage run over: the library, the chapter, loops, every op.

Each is compiled up to the low level once a session; tests look at the snapshots.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import chapter_texts
import loop_kernels
import numpy as np
import wia_compiler as wia
import wia_kernels
from conformance.matrix.row import VALUES
from conformance.matrix.run import groups, operands_for, text_of
from stage_modules import visit_stages
from wia_compiler.base.record import Stage
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.text import print_ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.printer import Printer

TARGETS = ("cpu", "gpu:sm_90")


@dataclass(frozen=True, eq=False)
class Sample:
    """One kernel of a text, and what it is compiled for."""

    name: str
    text: str
    kernel: str
    arguments: Sequence[Any]
    bindings: dict[str, Any] | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Snapshot:
    """One stage: its text in three forms, and which of its ops name a place in the source.

    ``missing`` are the names of ops of functions that name none.
    """

    name: str
    level: str
    text: str
    generic: str
    with_locations: str
    count: int
    missing: tuple[str, ...]


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Kernels of the library, of the chapter, with branches and loops, and of each group of ops."""
    return (*_library(), *_chapter(), *_programs(), *_ops())


def _library() -> list[Sample]:
    made = list[Sample]()
    for number, name in enumerate(wia_kernels.names()):
        each = wia_kernels.get(name)
        dtype = each.dtypes[number % len(each.dtypes)]
        shapes = each.shapes[min(2, len(each.shapes) - 1)]
        arguments = [wia.spec(shape, dtype) for shape in shapes]
        made.append(Sample(f"{name}-{dtype}", each.text, name, arguments))
    return made


def _f32(*shapes: tuple[int, ...]) -> list[Any]:
    return [wia.spec(shape, "f32") for shape in shapes]


def _chapter() -> list[Sample]:
    weights = {"weight1": (4, 3, 3, 3), "weight2": (5, 4, 3, 3), "fc_weight": (80, 10)}
    bindings: dict[str, Any] = {name: np.ones(shape, np.float32) for name, shape in weights.items()}
    for name, channels in (("bn1_params", 4), ("bn2_params", 5)):
        bindings[name] = tuple(np.ones(channels, np.float32) for _ in range(4))
    product = _f32((17, 33), (33, 9))
    return [
        Sample("chapter-matmul", chapter_texts.MATMUL, "matmul_kernel", product),
        Sample("chapter-matmul-ir", chapter_texts.MATMUL_IR, "matmul_kernel", product),
        Sample(
            "chapter-forward",
            chapter_texts.FORWARD,
            "forward_pass",
            _f32((1, 3, 14, 14)),
            bindings,
        ),
        Sample(
            "chapter-conditional",
            chapter_texts.CONDITIONAL + chapter_texts.EXPENSIVE,
            "conditional_compute",
            _f32((17,), ()),
        ),
        Sample(
            "chapter-fusion",
            chapter_texts.FUSION,
            "snippet",
            _f32((1, 3, 9, 9), (4, 3, 3, 3), (4, 1, 1)),
        ),
    ]


NEWTON = """
kernel newton(input a: tensor, output x: tensor) {
    x = a;
    let n = 0;
    while (reduce_max(abs(x * x - a)) > 1e-3 && n < 20) {
        x = 0.5 * (x + a / x);
        n = n + 1;
    }
    if (reduce_min(x) < 0.0) { x = -x; } else { x = relu(x); }
}"""


def _programs() -> list[Sample]:
    made = [Sample("newton", NEWTON, "newton", _f32((17,)))]
    vectors, matrices = _f32((17,), (17,)), _f32((9, 17), (17, 5))
    for text, arguments in (
        (loop_kernels.VECTOR_ADD, vectors),
        (loop_kernels.UNROLLED, _f32((20,), (20,))),
        (loop_kernels.MATMUL, matrices),
        (loop_kernels.TILED, matrices),
    ):
        name = text.split("kernel ", 1)[1].split("(", 1)[0]
        made.append(Sample(f"loops-{name}", text, name, arguments))
    return made


def _ops() -> list[Sample]:
    made = list[Sample]()
    for number, group in enumerate(groups()):
        dtype = group.dtypes[number % len(group.dtypes)]
        operands = operands_for(group.row, dtype, "17", VALUES[0])
        arguments = [wia.spec(each.shape, str(each.dtype)) for each in operands]
        text = text_of(group.row, group.members, "17")
        made.append(Sample(f"{group}-{dtype}", text, "k", arguments))
    return made


@functools.cache
def snapshots(sample: Sample, target: str) -> tuple[Snapshot, ...]:
    """The stages that have a module and changed it, up to the target's low level."""
    made = list[Snapshot]()

    def visit(stage: Stage, module: ModuleOp) -> None:
        if stage.changed:
            made.append(_snapshot(stage, module))

    kernel = wia.compile(sample.text, bindings=sample.bindings)[sample.kernel]
    visit_stages(kernel, sample.arguments, visit, target)
    return tuple(made)


def _snapshot(stage: Stage, module: ModuleOp) -> Snapshot:
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    ops = [op for op in module.walk() if not isinstance(op, ModuleOp | FuncOp)]
    missing = tuple(op.name for op in ops if not spans_of(op))
    located = print_ir(module, locations=True)
    return Snapshot(
        stage.name, stage.level, print_ir(module), stream.getvalue(), located, len(ops), missing
    )
