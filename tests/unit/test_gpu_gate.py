"""The gate: every kernel of the library, in each dtype, assembled for every architecture.

Each builds at its working size. No spills, no stack, no warning of ptxas, and at least one block on
an SM. ``make assembler`` does the same at every size and prints what ptxas says.
"""

import pytest
import wia_compiler as wia
import wia_kernels
from unit.gpu_gate import check_all, faults_of, library_cases
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES

MATMUL = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"

# Every architecture is assembled for; most dtypes at two of them, so that the gate stays short.
WIDELY = ("f32", "f16", "i32")
TWO = ("sm_80", "sm_90")


def cases(architecture: str):
    return [
        case
        for case in library_cases([architecture])
        if case.dtype in WIDELY or architecture in TWO
    ]


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_library_is_assembled_without_a_word(architecture):
    found = check_all(cases(architecture))
    faults = [f"{each.case}: {'; '.join(each.faults)}" for each in found if each.faults]
    assert faults == [], "\n".join(faults)
    for each in found:
        resources = each.resources
        assert resources["architecture"] == architecture
        assert 0 < resources["registers"] <= 255 and 0 < resources["occupancy"] <= 1
        assert resources["occupancy_limiter"] in ("blocks", "warps", "registers", "shared memory")


def test_every_kernel_and_dtype_is_a_case():
    found = {(case.kernel.name, case.dtype) for case in library_cases(["sm_90"])}
    wanted = {(name, d) for name in wia_kernels.names() for d in wia_kernels.get(name).dtypes}
    assert found == wanted
    everything = list(library_cases(["sm_75"], sizes=None))
    assert len(everything) > 2 * len(found)
    assert all(0 not in shape for case in everything for shape in case.shapes)


def test_what_the_gate_refuses():
    fine = {"architecture": "sm_75", "registers": 255, "shared_bytes": 65536, "warnings": []}
    assert list(faults_of(fine)) == []
    bad = fine | {
        "registers": 256, "shared_bytes": 65537, "spill_store_bytes": 4, "spill_load_bytes": 8,
        "stack_bytes": 16, "warnings": ["(C7510) serialized"], "entries": {"k": {}},
        "ctas_per_sm": 0, "occupancy_limiter": "registers",
    }  # fmt: skip
    assert list(faults_of(bad)) == [
        "4 spill_store_bytes", "8 spill_load_bytes", "16 stack_bytes",
        "ptxas warns: (C7510) serialized", "256 registers, a thread has 255",
        "65537 bytes of shared memory, a block has 64 KiB",
        "no block fits on an SM: registers",
    ]  # fmt: skip


@needs_ptxas
def test_a_schedule_that_spills_is_seen():
    """The gate can fail: 16 × 16 sums of a thread are more than 255 registers."""
    schedule = "tile i 128, j 128, k 16; thread_tile i 16, j 16"
    square = wia.spec((256, 256), "f32")
    built = wia.compile(MATMUL).mm.build(square, square, target="gpu:sm_80", schedule=schedule)
    assert any("spill" in fault for fault in faults_of(built.resources))
