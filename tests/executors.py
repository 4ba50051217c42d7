"""A kernel on every executor: the reference, the mid level's interpreter, and the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import wia_compiler as wia
from stage_modules import module_at
from wia_compiler.reference.tile import run_tile_module

Array = np.ndarray[Any, Any]


def run_everywhere(text: str, *arrays: Any) -> dict[str, list[Array]]:
    """The results of the last kernel of a text, by executor; numbers are scalars."""
    program = wia.compile(text)
    kernel = program[list(program)[-1]]
    expected = listed(wia.reference(kernel, *arrays))
    return {
        "reference": expected,
        "interpreter": interpret(kernel, arrays, expected),
        "cpu": listed(kernel(*arrays)),
    }


def interpret(kernel: wia.Kernel, arrays: Any, like: list[Array]) -> list[Array]:
    """What the mid level of a kernel computes."""
    from wia_compiler.runtime.arguments import read_arguments

    made = [np.zeros_like(each) for each in like]
    given = read_arguments(kernel.signature, arrays, {}).arrays
    run_tile_module(module_at(kernel, arrays, "loops"), given, made)
    return made


def value(call: str, **operands: Any) -> dict[str, Array]:
    """What one expression over named operands is, by executor."""
    inputs = "".join(f"input {name}: tensor, " for name in operands)
    text = f"kernel k({inputs}output result: tensor) {{ result = {call}; }}"
    found = run_everywhere(text, *operands.values())
    return {executor: results[0] for executor, results in found.items()}


def listed(results: Any) -> list[Array]:
    """One result or several as a list."""
    return list(results) if isinstance(results, tuple) else [results]
