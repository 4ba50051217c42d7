"""Launch bounds are lowered where ptxas would spill for them, and left alone elsewhere."""

import re

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.bounds import relax_bounds
from wia_compiler.backends.gpu.resources import parse_usage
from wia_compiler.backends.gpu.tools import assemble

SM_80 = ARCHITECTURES["sm_80"]
VALUES = 48


def entry(name: str, bound: str, values: int = VALUES) -> str:
    """An entry that loads so many values before it stores any: it needs as many registers."""
    loads = "\n".join(f"ld.global.u32 %r{n}, [%d0+{4 * n}];" for n in range(values))
    stores = "\n".join(
        f"xor.b32 %r{n}, %r{n}, %r{(n + 7) % values};\nst.global.u32 [%d0+{4 * n}], %r{n};"
        for n in range(values)
    )
    return f"""
.visible .entry {name}(.param .u64 x)
.maxntid 256
{bound}
{{
.reg .b32 %r<{values}>;
.reg .b64 %d<2>;
ld.param.u64 %d0, [x];
{loads}
bar.sync 0;
{stores}
ret;
}}"""


HEAD = ".version 7.0\n.target sm_80\n.address_size 64"


def bounds_of(text: str) -> dict[str, int]:
    found = re.findall(r"\.entry (\w+)\(.*\n\.maxntid \d+\n(?:\.minnctapersm (\d+))?", text)
    return {name: int(bound) if bound else 0 for name, bound in found}


def spills_of(text: str) -> dict[str, int]:
    used = parse_usage(assemble(text, "sm_80").log)[0]
    return {name: each.spill_store_bytes for name, each in used.items()}


@needs_ptxas
def test_a_bound_is_lowered_until_nothing_is_spilled():
    tight, roomy = entry("tight", ".minnctapersm 8"), entry("roomy", ".minnctapersm 2", 8)
    text = HEAD + tight + roomy
    before = assemble(text, "sm_80").log
    assert spills_of(text)["tight"] > 0
    relaxed = relax_bounds(text, before, SM_80)
    assert set(spills_of(relaxed).values()) == {0}
    found = bounds_of(relaxed)
    assert 1 <= found["tight"] < 8 and found["roomy"] == 2
    one_more = relaxed.replace(
        f".minnctapersm {found['tight']}", f".minnctapersm {found['tight'] + 1}"
    )
    assert spills_of(one_more)["tight"] > 0, "not lowered further than needed"
    assert len(relaxed.split("\n")) == len(text.split("\n")), "lines stay in place"


@needs_ptxas
def test_what_fits_stays_as_it_is():
    text = HEAD + entry("roomy", ".minnctapersm 4", 8)
    assert relax_bounds(text, assemble(text, "sm_80").log, SM_80) == text
    bare = HEAD + entry("bare", "", 8)
    assert relax_bounds(bare, assemble(bare, "sm_80").log, SM_80) == bare
    huge = HEAD + entry("huge", "", 400)
    relaxed = relax_bounds(huge, assemble(huge, "sm_80").log, SM_80)
    assert relaxed == huge.replace(".maxntid 256", ".maxntid 256 .minnctapersm 1"), "all registers"


@needs_ptxas
def test_a_bound_that_nothing_helps_is_dropped():
    text = HEAD + entry("huge", ".minnctapersm 8", 400)
    relaxed = relax_bounds(text, assemble(text, "sm_80").log, SM_80)
    assert bounds_of(relaxed) == {"huge": 0}


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_a_build_runs_the_text_that_was_assembled(architecture):
    text = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
    a = np.ones((64, 64), np.float32)
    schedule = "tile i 64, j 64, k 16; thread_tile i 8, j 8"
    build = wia.compile(text).mm.build(a, a, target=f"gpu:{architecture}", schedule=schedule)
    assert build.resources["spill_store_bytes"] == 0
    assert build.stage("ptx").text == build.assembly("ptx")
    assert build.artifact.files["kernel.ptx"].decode() == build.assembly("ptx")
    np.testing.assert_array_equal(build(a, a), a @ a)


@needs_ptxas
def test_a_bound_of_registers_is_raised_until_nothing_is_spilled():
    text = HEAD + entry("tight", ".maxnreg 32")
    assert spills_of(text)["tight"] > 0
    relaxed = relax_bounds(text, assemble(text, "sm_80").log, SM_80)
    assert spills_of(relaxed)["tight"] == 0
    (bound,) = re.findall(r"\.maxnreg (\d+)", relaxed)
    assert 32 < int(bound) <= 32 + 6 * 16 and relaxed.count("\n") == text.count("\n")
