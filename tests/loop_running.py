"""Kernels over elements, run three ways: as CPU code, on the mid-level interpreter, by meaning."""

from typing import Any

import numpy as np
import wia_compiler as wia
from numpy.typing import NDArray
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.tile import run_tile_module

Array = NDArray[Any]


def kernel_of(text: str) -> wia.Kernel:
    """The last kernel of a text."""
    program = wia.compile(text)
    return program[list(program)[-1]]


def run_all(text: str, *arrays: Any, exact: bool = True, **options: Any) -> tuple[Array, ...]:
    """The results on the CPU; the interpreter of the mid level and the reference give the same.

    ``exact``: bit for bit; else within a few units in the last place.
    """
    kernel = kernel_of(text)
    build = kernel.build(*arrays, **options)
    roles = [parameter.role for parameter in kernel.signature.inputs]
    passed = [
        array.copy() if role == "inout" else array
        for array, role in zip(arrays, roles, strict=True)
    ]  # a call updates inout arrays in place
    results = _listed(build(*passed))
    wanted = _listed(wia.reference(kernel, *arrays))
    module = parse_ir(build.stage("loops").text)
    assert print_ir(module) == build.stage("loops").text
    verify_tile(module)
    inputs = [
        np.asarray(array, each.spec.dtype.numpy)
        for array, each in zip(arrays, build.inputs, strict=True)
    ]
    middle = [np.zeros(each.spec.shape, each.spec.dtype.numpy) for each in build.outputs]
    run_tile_module(module, inputs, middle)
    for have in (results, middle):
        for one, other in zip(have, wanted, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            _compare(one, other, exact=exact)
    return tuple(results)


def _compare(one: Array, other: Array, *, exact: bool) -> None:
    if one.dtype.kind not in "iubf":  # numpy knows no NaN in bf16
        one, other = one.astype(np.float32), other.astype(np.float32)
    if exact:
        np.testing.assert_array_equal(one, other)
    else:
        np.testing.assert_allclose(one, other, rtol=1e-5)


def _listed(results: Any) -> list[Array]:
    return list(results) if isinstance(results, tuple) else [results]


def reasons(build: wia.Build, kind: str) -> dict[str, tuple[bool, str]]:
    """Decisions of a kind: candidate to taken and reason."""
    return {
        each.candidate: (each.taken, each.reason)
        for each in build.trace.decisions
        if each.kind == kind
    }
