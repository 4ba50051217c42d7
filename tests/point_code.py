"""Nests written as text, run by the interpreter of the mid level and as CPU code."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from building import context
from llvm_running import load_module
from mid_building import assert_close, check, result_specs
from numpy.typing import NDArray
from wia_compiler.backends.cpu.lower import LowerPass
from wia_compiler.backends.cpu.schedule import SchedulePass
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.tile import run_tile_module
from xdsl.dialects.builtin import ModuleOp

Array = NDArray[Any]
LAYOUTS = ("plain", "transposed", "negative", "broadcast")


def nest(parameters: str, body: str) -> ModuleOp:
    """A module with one nest ``@n`` and a host ``@k`` that calls it."""
    pairs = [part.split(": ", 1) for part in parameters.split(", %")]
    names = ", ".join(f"%{name.lstrip('%')}" for name, _ in pairs)
    types = ", ".join(type for _, type in pairs)
    module = parse_ir(f"""
      func.func @k({parameters}) attributes {{wia.host}} {{
        func.call @n({names}) : ({types}) -> ()
        func.return
      }}
      func.func @n({parameters}) attributes {{wia.nest}} {{
        {body}
        func.return
      }}""")
    module.verify()
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)
    return module


def interpreted(module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Run a module on the interpreter; outputs are written in place."""
    verify_tile(module)
    run_tile_module(module, inputs, outputs)


def on_cpu(module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Run a module (which is left as it is) as CPU code; outputs are written in place."""
    made = module.clone()
    for step in (SchedulePass(), LowerPass()):
        step.run(made, context())
        made.verify()
    load_module(made, "k", len(inputs) + len(outputs))(inputs, outputs)


def check_kernel(module: ModuleOp, inputs: Sequence[Array], *, tolerance: float = 0.0) -> ModuleOp:
    """The reference, the interpreter and CPU code agree on a kernel; its nests."""
    nests = check(module, inputs, tolerance=tolerance)
    verify_tile(nests)
    wanted = run_module(module, "k", inputs)
    made = [np.full(each.shape, 3, each.dtype.numpy) for each in result_specs(module)]
    on_cpu(nests, inputs, made)
    for have, want in zip(made, wanted, strict=True):
        assert_close(have, want, tolerance)
    return nests


def check_both(
    module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[tuple[Any, Any]]
) -> list[Array]:
    """What the interpreter computes, as CPU code does; ``outputs`` are (shape, dtype)."""
    made = [[np.full(shape, 7, dtype) for shape, dtype in outputs] for _ in range(2)]
    interpreted(module, inputs, made[0])
    on_cpu(module, inputs, made[1])
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)
    return made[0]


def strided(array: Array, kind: str) -> Array:
    """The same numbers in another layout of memory."""
    if kind == "transposed":
        return np.asfortranarray(array)
    if kind == "negative":
        return np.ascontiguousarray(array[::-1])[::-1]
    if kind == "broadcast":
        return np.broadcast_to(array[:1], array.shape)
    return array
