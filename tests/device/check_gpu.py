"""Checks kernels on a GPU against their references: ``python tests/device/check_gpu.py``.

Builds come from other processes; each case says how it went as soon as it ran. ``--rehearse`` runs
a few small cases of the same kinds on the simulator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("compiler", "kernels", "tests")]

import numpy as np  # noqa: E402
import wia_kernels  # noqa: E402
from device.builds import DTYPES, VIEWS, Builds, Built, Operand, Request  # noqa: E402
from device.machine import device_of, is_lost  # noqa: E402
from device.progress import REHEARSAL_S, Progress  # noqa: E402
from wia_compiler.backends.gpu.execute import load_on_gpu  # noqa: E402

BUDGET_S = 200.0
Host = np.ndarray[Any, Any]
TOLERANCES = {"f64": 1e-10, "f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}
"""Relative, and of the largest result; integers are equal."""
OTHER_SHAPES = 3
"""Shapes of the library in types other than the first: its working size and odd ones."""
EXPRESSIONS = ("A @ B", "A @ transpose(B)", "transpose(A) @ B", "relu(A @ B + bias)")
SIZES = ((128, 256, 128), (200, 136, 328), (1500, 1000, 776))
"""Of products: aligned, ragged, and with more tiles than SMs have blocks at a time."""
ADD = "kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }"


@dataclass(frozen=True)
class Case:
    """A kernel, and what it must give; ``place`` says where its arrays are.

    On the ``host``, on the ``device``, or there, ``shifted`` by one element.
    """

    name: str
    request: Request
    reference: Callable[..., Any]
    place: str = "host"

    @property
    def dtype(self) -> str:
        return self.request.operands[0].dtype


def library_cases(*, rehearse: bool) -> list[Case]:
    """Every kernel of the library: all shapes in one type, some in the others."""
    found: list[Case] = []
    for name in ("vector_add", "softmax") if rehearse else wia_kernels.names():
        kernel = wia_kernels.get(name)
        dtypes = sorted(kernel.dtypes, key=lambda dtype: dtype != "f32")
        for dtype in dtypes[:1] if rehearse else dtypes:
            shapes = kernel.shapes if dtype == dtypes[0] else kernel.shapes[:OTHER_SHAPES]
            for operands in shapes[2:3] if rehearse else shapes:
                request = Request(kernel.text, tuple(Operand(each, dtype) for each in operands))
                shown = ", ".join("×".join(map(str, each)) or "scalar" for each in operands)
                found.append(Case(f"{name} {dtype} {shown}", request, kernel.reference))
    return found


def product_cases(*, rehearse: bool) -> list[Case]:
    """Products on tensor cores: operands as they lie and turned, with an epilogue."""
    found: list[Case] = []
    for m, n, k in ((72, 136, 64),) if rehearse else SIZES:
        for expression in EXPRESSIONS[-1:] if rehearse else EXPRESSIONS:
            for dtype in ("f16",) if rehearse else ("f16", "bf16"):
                shapes: dict[str, tuple[int, ...]] = {}
                shapes["A"] = (k, m) if "transpose(A)" in expression else (m, k)
                shapes["B"] = (n, k) if "transpose(B)" in expression else (k, n)
                if "bias" in expression:
                    shapes["bias"] = (n,)
                inputs = ", ".join(f"input {name}: tensor" for name in shapes)
                text = f"kernel mm({inputs}, output C: tensor) {{ C = {expression}; }}"
                operands = tuple(Operand(shape, dtype) for shape in shapes.values())
                name = f"{expression} {dtype} {m}×{n}×{k}"
                found.append(Case(name, Request(text, operands), _product(expression)))
    return found


def _product(expression: str) -> Callable[..., Any]:
    def reference(a: Host, b: Host, *bias: Host) -> Host:
        left = a.T if "transpose(A)" in expression else a
        right = b.T if "transpose(B)" in expression else b
        return np.maximum(left @ right + bias[0], 0) if bias else left @ right

    return reference


def array_cases(*, rehearse: bool) -> list[Case]:
    """Where arrays may be: strided on the host, on the device, there from any element on."""
    found: list[Case] = []
    side = 32 if rehearse else 128
    views = ("every second row", "turned") if rehearse else tuple(VIEWS)
    for view in filter(None, views):
        plain = Operand(VIEWS[view](np.empty((side, side))).shape, "f32")
        request = Request(ADD, (Operand((side, side), "f32", view), plain))
        found.append(Case(f"add f32 {view}", request, np.add))
    size = 1000 if rehearse else 1 << 20
    flat = Request(ADD, (Operand((size,), "f32"),) * 2)
    found += [Case(f"add f32 {size} {place}", flat, np.add, place) for place in _PLACES]
    return found


_PLACES = ("device", "shifted")


def arrays_of(operands: Sequence[Operand]) -> list[Host]:
    """Random numbers, the same each time; small integers for integer types."""
    rng = np.random.default_rng(5)
    found: list[Host] = []
    for each in operands:
        if each.dtype in TOLERANCES:
            array = rng.standard_normal(each.shape).astype(DTYPES[each.dtype])
        else:
            low = 0 if each.dtype.startswith("u") else -9
            array = rng.integers(low, 9, each.shape).astype(DTYPES[each.dtype])
        found.append(each.of(array))
    return found


def run_case(cupy: Any, case: Case, built: Built) -> None:
    """Run it; ``AssertionError`` where the result is not the reference's."""
    arrays = arrays_of(case.request.operands)
    run = load_on_gpu(built.artifact)
    outputs = [np.zeros(shape, dtype) for shape, dtype in built.outputs]
    if case.place == "host":
        run(arrays, outputs)
        found = outputs[0]
    else:
        shift = int(case.place == "shifted")
        there = [_on_device(cupy, array, shift) for array in (*arrays, outputs[0])]
        run(there[:-1], there[-1:])
        found = cupy.asnumpy(there[-1])
    bound = TOLERANCES.get(case.dtype, 0.0)
    wide = [array.astype(np.float64) if bound else array for array in arrays]
    expected = np.asarray(case.reference(*wide))
    if not bound:
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
        return
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=bound, atol=bound * scale)


def _on_device(cupy: Any, array: Host, shift: int) -> Any:
    """A flat array on the device that begins so many elements after where memory does."""
    there = cupy.zeros((array.size + shift,), cupy.float32)[shift:]
    there[...] = cupy.asarray(array)
    return there


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="on the simulator, small cases")
    rehearse = parser.parse_args(arguments).rehearse
    progress = Progress(REHEARSAL_S if rehearse else BUDGET_S)
    try:
        cupy, architecture = device_of(rehearse=rehearse)
    except LookupError as reason:
        progress.say(f"nothing checked: {reason}")
        return
    groups = (product_cases, array_cases, library_cases)
    cases = [case for group in groups for case in group(rehearse=rehearse)]
    progress.say(f"{len(cases)} cases for {architecture}")
    builds = Builds(architecture, workers=1 if rehearse else None)
    done = 0
    try:
        builds.request([case.request for case in cases])
        for case in cases:
            if progress.left_s <= 0:
                progress.say("out of time")
                break
            try:
                run_case(cupy, case, builds.get(case.request, progress.left_s))
                progress.say(f"right {case.name}")
            except Exception as error:
                progress.fail(f"{case.name}: {type(error).__name__}: {error}")
                if is_lost(cupy):
                    progress.say("the kernel ended the device's context: nothing more runs here")
                    break
            done += 1
    finally:
        builds.close()
    progress.end(done, len(cases))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
