"""Advice as data: its rules by numbers, and schedules that make real cases faster by the model."""

import copy
import json
import pickle

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.base.schedule import Schedule
from wia_compiler.profiler import schedule_edits as edits
from wia_compiler.profiler.advice import RULES, WORTH, Advice, Run, advise
from wia_compiler.profiler.ceilings import Ceiling, Ceilings
from wia_compiler.profiler.roofline import roofline

MACHINE = Ceilings(
    "a machine",
    (
        Ceiling("f32 FMA", "compute", 100e9, "measured", None, ("f32",)),
        Ceiling("DRAM", "memory", 10e9, "measured"),
    ),
)


def test_advice_is_its_sentence_with_data():
    advice = Advice("do this", rule="r", counter="c", value=2.0, threshold=1.0, schedule="tile i 2")
    assert advice == "do this" == advice.text and isinstance(advice, str)
    assert "\n".join([advice]) == "do this" and f"{advice}" == "do this"
    assert type(advice.text) is str
    assert json.loads(json.dumps([advice])) == ["do this"]
    assert json.loads(json.dumps(advice.to_data())) == {
        "text": "do this", "rule": "r", "counter": "c", "value": 2.0, "threshold": 1.0,
        "schedule": "tile i 2", "gain": None, "source": "simulated",
    }  # fmt: skip
    for again in (copy.deepcopy(advice), pickle.loads(pickle.dumps(advice))):
        assert again == advice and again.to_data() == advice.to_data()


def test_every_rule_is_a_row_of_data():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.counter and rule.source in ("measured", "simulated", "model", "ptxas")


def run_of(**facts) -> Run:
    place = roofline(10**11, 10**6, 1.2, MACHINE)
    return Run(place, None, 1.2, 10**6, facts.pop("counters", {}), **facts)


def test_what_ptxas_says():
    spilled = {"spill_store_bytes": 40, "spill_load_bytes": 8, "registers": 255, "warnings": []}
    (advice,) = advise(run_of(resources=spilled))
    assert (advice.rule, advice.value, advice.source) == ("spills", 48, "ptxas")
    assert advice.startswith("48 bytes a thread are spilled")
    assert advise(run_of(resources={"registers": 216})) == ()
    (pressed,) = advise(run_of(resources={"registers": 217}))
    assert pressed.rule == "register pressure" and "217 of 255 registers" in pressed
    (warned,) = advise(run_of(resources={"warnings": ["(C7510) serialized", "another"]}))
    assert warned == "ptxas warns: (C7510) serialized" and warned.value == 2


def test_rules_of_the_model_are_silent_without_an_estimate():
    counters = {"flops": 100, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 4}
    assert advise(run_of(counters=counters)) == ()


MM = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
COPY = "kernel copy(input A: tensor, output C: tensor) { C = relu(A); }"
ADD = "kernel add(input A: tensor, output C: tensor) { C = A + 1.0; }"
SQUARE = np.ones((512, 512), np.float32)
CASES = [
    pytest.param(
        "shared memory bound", MM, (SQUARE, SQUARE), "gpu:sm_75",
        "tile i 64, j 64, k 16; thread_tile i 2, j 2", id="shared memory bound",
    ),
    pytest.param(
        "too few blocks", MM, (SQUARE, SQUARE), "gpu:sm_80",
        "tile i 64, j 64, k 16; thread_tile i 2, j 2", id="too few blocks",
    ),
    pytest.param(
        "spills", MM, (SQUARE, SQUARE), "gpu:sm_80",
        "tile i 128, j 128, k 16; thread_tile i 16, j 16", id="spills",
    ),
    pytest.param(
        "too few bytes in flight", COPY, (np.ones(1 << 24, np.int8),), "gpu:sm_90",
        "tile i 256", id="too few bytes in flight",
    ),
    pytest.param(
        "no tensor cores", MM, (SQUARE, SQUARE), "gpu:sm_80", "default", id="no tensor cores",
    ),
]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize(("rule", "text", "arrays", "target", "schedule"), CASES)
def test_its_schedule_makes_the_estimate_shorter(rule, text, arrays, target, schedule):
    (kernel,) = wia.compile(text).values()
    build = kernel.build(*arrays, target=target, schedule=schedule)
    before = build.profile(*arrays)
    (advice,) = [each for each in before.advice if each.rule == rule]
    assert advice.schedule is not None and advice.schedule != build.schedule
    assert advice.gain is None or advice.gain >= WORTH
    applied = kernel.build(*arrays, target=target, schedule=advice.schedule)
    after = build.to(schedule=advice.schedule).profile(*arrays)
    assert applied.assembly("ptx") == build.to(schedule=advice.schedule).assembly("ptx")
    assert after.estimate.time < before.estimate.time
    compared = before.compare(after)
    assert compared["seconds"].ratio == pytest.approx(after.estimate.time / before.estimate.time)


TRIED = (
    "default",
    "tile i 16, j 16, k 16; thread_tile i 1, j 1",
    "tile i 64, j 64, k 8; thread_tile i 8, j 4; pipeline k 2",
)


@needs_ptxas
@pytest.mark.parametrize("schedule", TRIED)
@pytest.mark.parametrize("target", ["gpu:sm_75", "gpu:sm_80", "gpu:sm_90a"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_whatever_is_advised_can_be_applied(dtype, target, schedule):
    arrays = [np.ones((200, 120), dtype), np.ones((120, 160), dtype)]
    (kernel,) = wia.compile(MM).values()
    build = kernel.build(*arrays, target=target, schedule=schedule)
    for advice in build.profile(*arrays).advice:
        if advice.schedule is not None:
            assert (build.to(schedule=advice.schedule)(*arrays) == 120).all(), advice.rule


def block(text: str) -> Schedule:
    (found,) = edits.read_blocks(f"schedule k {{ {text} }}")
    return found


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        ("smaller_thread_tile", "tile i 64, j 64, k 8; thread_tile i 4, j 8;", "i 4, j 4"),
        ("smaller_thread_tile", "tile i 64, j 64, k 8; thread_tile i 2, j 1;", "tile i 32"),
        ("smaller_thread_tile", "tile i 64, j 64, k 8; thread_tile i 1, j 1;", None),
        ("smaller_thread_tile", "tile i 256;", None),
        ("larger_thread_tile", "tile i 32, j 32, k 8; thread_tile i 2, j 4;", "i 4, j 4"),
        ("larger_thread_tile", "tile i 16, j 16, k 8;", "thread_tile i 2, j 1"),
        ("larger_thread_tile", "tile i 16, j 8, k 8; thread_tile i 2, j 2;", "tile i 32"),
        ("larger_thread_tile", "tile i 256; thread_tile i 4;", None),
        ("smaller_tile", "tile i 64, j 32, k 16; thread_tile i 4, j 4;", "tile i 32, j 32, k 16"),
        ("smaller_tile", "tile i 256;", "tile i 128"),
        ("smaller_tile", "tile i 32;", None),
        ("smaller_tile", "tile i 16, j 16, k 16; thread_tile i 4, j 4;", None),
        ("smaller_fold", "tile i 64, j 64, k 32; thread_tile i 4, j 4;", "k 16"),
        ("smaller_fold", "tile i 64, j 64, k 8; thread_tile i 4, j 4;", None),
        ("along_the_last_axis", "tile i 256, j 2;", "tile i 2, j 256"),
        ("along_the_last_axis", "tile i 8, j 32;", None),
        ("by_tensor_cores", "tile i 8, j 32, k 8; thread_tile i 4;", "{\n    use_tensor_cores;"),
        ("by_tensor_cores", "tile i 32; use_tensor_cores;", None),
    ],
)  # fmt: skip
def test_edits_change_one_thing(edit, before, after):
    changed = getattr(edits, edit)(block(before))
    if after is None:
        assert changed is None
    else:
        assert after in str(changed)
        assert edits.read_blocks(str(changed)) == (changed,)


def test_of_several_nests_the_one_that_fits_is_changed():
    text = "# one\nschedule k.a { tile i 64, j 64, k 16; thread_tile i 4, j 4; }\n# b: by itself\n"
    text += "schedule k.c { tile i 256; }"
    made = edits.edited(text, edits.smaller_fold)
    assert made is not None and "k 8" in made and "schedule k.c" in made
    assert edits.edited(text, edits.smaller_tile) is None, "both could be meant"
    assert edits.edited("", edits.smaller_tile) is None
    assert edits.edited("nothing that is a schedule", edits.smaller_tile) is None


@needs_ptxas
def test_the_gain_is_the_models_answer_to_a_change():
    build = wia.compile(MM).mm.build(SQUARE, SQUARE, target="gpu:sm_80")
    estimate = build.profile(SQUARE, SQUARE).estimate
    assert estimate.gain_of(lambda case: case) == pytest.approx(
        estimate.time / sum(each.time for each in estimate.launches)
    )
    assert estimate.inputs["instructions"].startswith("SASS of ptxas")
    assert json.loads(json.dumps(estimate.to_data()))["inputs"] == dict(estimate.inputs)
