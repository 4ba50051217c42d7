"""docs/stages.md is the table of the stages, and says which of them are plain MLIR."""

from __future__ import annotations

import wia_compiler as wia
from stages_page import stages
from wia_compiler.passes.pipeline import high_passes, mid_passes

ADD = "kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }"


def test_the_page_lists_every_stage_in_order() -> None:
    order = [step.name for step in (*high_passes(()), *mid_passes(()))]
    listed = [name for name, (level, _) in stages().items() if level in ("high", "mid")]
    own = [name for name in listed if name not in ("import", "schedule")]
    assert [name for name in own if name in order] == order
    assert set(own) - set(order) <= {"patterns"}


def test_levels_are_those_of_a_build() -> None:
    specs = wia.spec((17,), "f32"), wia.spec((17,), "f32")
    for target in ("cpu", "gpu:sm_90"):
        for stage in wia.compile(ADD).add.build(*specs, target=target).stages:
            assert stages()[stage.name][0] == stage.level, f"{target}: {stage.name}"
