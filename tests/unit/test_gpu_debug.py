"""``debug=True`` on a GPU target: launches on the simulator are checked, and ours are clean."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import wia_compiler as wia
import wia_kernels
from wia_compiler.backends.gpu.execute import gpu_is_here
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import TargetError
from wia_compiler.runtime.targets import make_target

RNG = np.random.default_rng(23)
TARGET = "gpu:sm_80"
MOST_ELEMENTS = 6000

pytestmark = pytest.mark.skipif(gpu_is_here(), reason="kernels run on this machine's GPU")


def arguments(name: str, dtype: str) -> list[np.ndarray]:
    """Inputs of a kernel of the library: its largest shapes that are small."""
    definition = wia_kernels.get(name)
    sizes = {shapes: sum(map(math.prod, shapes)) for shapes in definition.shapes}
    shapes = max((each for each, size in sizes.items() if size < MOST_ELEMENTS), key=sizes.get)
    return [(RNG.standard_normal(shape) * 3).astype(DTYPES[dtype].numpy) for shape in shapes]


def kernel(text: str) -> wia.Kernel:
    (made,) = wia.compile(text).values()
    return made


@pytest.mark.parametrize("name", wia_kernels.names())
def test_kernels_of_the_library_are_clean(name):
    """A race, an early read or a partial barrier of a kernel of ours is an error here."""
    dtype = "f32" if "f32" in wia_kernels.get(name).dtypes else "i32"
    arrays = arguments(name, dtype)
    checked = kernel(wia_kernels.get(name).text).to(TARGET, debug=True)
    found = checked(*arrays)
    plain = kernel(wia_kernels.get(name).text).to(TARGET)(*arrays)
    np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-6)


def without_one_barrier(name: str, shapes, number: int) -> str:
    """What is raised by a kernel of ours of whose PTX one ``bar.sync`` is cut out."""
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    build = kernel(wia_kernels.get(name).text).build(*arrays, target=TARGET, debug=True)
    text = build.artifact.files["kernel.ptx"].decode()
    barrier = list(re.finditer(r"bar\.sync\s+0;", text))[number]
    text = text[: barrier.start()] + text[barrier.end() :]
    wrong = replace(build.artifact, files={**build.artifact.files, "kernel.ptx": text.encode()})
    outputs = [np.zeros(each.spec.shape, each.spec.dtype.numpy) for each in build.outputs]
    with pytest.raises(TargetError) as caught:
        make_target(TARGET).load(wrong)(arrays, outputs)
    return str(caught.value)


@pytest.mark.parametrize("number", [0, 1])
def test_a_barrier_too_few_in_a_kernel_of_ours_is_told_with_its_line(number):
    message = without_one_barrier("matmul", [(33, 70), (70, 40)], number)
    assert re.match(r"matmul\.ptx: debug=True found \d+ faults\n\nerror: race in shared", message)
    assert "--> matmul.ptx:" in message
    assert "(from <wia>:" in message


@pytest.mark.parametrize("number", [0, 1])
def test_a_barrier_too_few_in_rows_is_told(number):
    assert "race in shared memory" in without_one_barrier("softmax", [(3, 1000)], number)


def test_a_workspace_that_no_launch_wrote_is_told():
    """Two nests, of which the first is left out: the second reads what was allocated."""
    text = "kernel k(input A: tensor, output Y: tensor) { B = softmax(A); Y = B @ A; }"
    a = RNG.standard_normal((20, 20)).astype(np.float32)
    build = kernel(text).build(a, target=TARGET, debug=True)
    plan = build.artifact.metadata
    assert len(plan["launches"]) > 1
    assert plan["workspace_bytes"]
    cut = {**plan, "launches": plan["launches"][1:], "blocks": []}
    executable = make_target(TARGET).load(replace(build.artifact, metadata=cut))
    with pytest.raises(TargetError, match="which nothing wrote"):
        executable([a], [np.zeros((20, 20), np.float32)])


def test_a_build_without_debug_is_not_checked():
    a = np.ones((4, 4), np.float32)
    text = "kernel k(input A: tensor, output Y: tensor) { Y = A + 1.0; }"
    plain = kernel(text).build(a, target=TARGET)
    assert "debug" not in plain.artifact.metadata
    assert kernel(text).build(a, target=TARGET, debug=True).artifact.metadata["debug"] is True
