"""Runs side by side: ratios, who counted, what is missing and why."""

import json

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.profiler.compare import MEASURED_NAMES, Compared, measured_name
from wia_compiler.profiler.ncu import METRICS

MM = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
A, B = np.ones((64, 48), np.float32), np.ones((48, 32), np.float32)


def build(schedule=None, target="gpu:sm_80"):
    return wia.compile(MM).mm.build(A, B, target=target, schedule=schedule)


def test_ratios_are_right_over_left():
    def row(left, right):
        return Compared("counters", "n", left, right, "simulated", "simulated").ratio

    assert row(4, 6) == 1.5 and row(0.5, 0) == 0
    assert row(0, 3) is row(None, 3) is row(3, None) is row("a", "b") is None


def test_two_schedules():
    first = build("tile i 32, j 32, k 16; thread_tile i 4, j 4")
    profile = first.profile(A, B)
    found = profile.compare(first.to(schedule="tile i 32, j 32, k 16; thread_tile i 2, j 2"))
    groups = {row.group for row in found.rows}
    assert groups == {"estimate", "resources", "needed by definition", "counters"}
    assert found["threads_per_block"].ratio == 4
    assert found["bytes"].ratio == 1
    counted = found["ptx_inst_executed"]
    assert counted.left == profile.counters["ptx_inst_executed"] < counted.right
    assert (counted.left_source, counted.right_source) == ("simulated", "simulated")
    assert found["seconds"].left_source == "model"
    assert found["seconds"].left == profile.estimate.time
    text = str(found)
    assert "mm on gpu:sm_80" in text and "the other" in text and "(model)" in text
    data = json.loads(found.to_json())
    assert len(data["rows"]) == len(found.rows)
    assert data["rows"] == json.loads(json.dumps([row.to_data() for row in found.rows]))
    with pytest.raises(KeyError):
        found["nothing"]


def test_a_run_beside_itself():
    profile = build().profile(A, B)
    same = profile.compare(profile)
    assert all(row.ratio in (1, None) for row in same.rows)


def test_targets_beside_each_other():
    measured = build(target="cpu").profile(A, B)
    found = build().profile(A, B).compare(measured)
    assert found["seconds"].left is None and found["seconds"].right == measured.time
    assert (found.left, found.right) == ("mm on gpu:sm_80", "mm on cpu")


def test_simulated_beside_measured_without_a_gpu():
    profile = build().profile(A, B)
    found = profile.compare()
    assert found.note.startswith("not measured: no GPU of this machine")
    assert found.rows and all(row.right is None for row in found.rows)
    assert not any(row.name.startswith("ptx_") for row in found.rows)
    sectors = found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert sectors.left == profile.counters[sectors.name]
    assert found.note in str(found)


class Measured:
    """What a GPU would have counted."""

    def __init__(self, of):
        self.of = of

    def lines(self):
        return self.of.lines()

    def simulated(self):
        return self.of.simulated()

    def measured(self):
        name = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
        return {name: 2 * self.of.simulated()[name], "dram__bytes.sum": 7.0}


def test_simulated_beside_measured_with_one():
    import dataclasses

    profile = build().profile(A, B)
    found = dataclasses.replace(profile, evidence=Measured(profile.evidence)).compare()
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"].ratio == 2
    assert (found["dram__bytes.sum"].left, found["dram__bytes.sum"].right) == (None, 7.0)
    assert found.note == ""


def test_only_what_means_the_same_is_paired():
    assert measured_name("ptx_inst_executed") is None
    assert measured_name("flops") is None
    assert measured_name("l1tex__average_t_sectors_per_request_pipe.ratio") is None
    assert measured_name("shared_memory_bank_conflicts") is None
    paired = {
        measured_name(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum")
        for op in ("ld", "st")
    }
    assert {*paired, *MEASURED_NAMES.values()} <= set(METRICS)


def test_a_profile_of_nothing_has_nothing_to_compare():
    profile = build(target="cpu").profile(A, B)
    with pytest.raises(wia.TargetError, match="there are no counters to compare"):
        profile.compare()
    with pytest.raises(wia.TargetError, match="on the arguments of a profile of a build"):
        profile.compare(build())


def test_profiles_are_plain_data():
    profile = build().profile(A, B)
    data = json.loads(profile.to_json())
    assert data["counters"] == dict(profile.counters)
    assert [each["text"] for each in data["advice"]] == list(profile.advice)
    assert data["estimate"]["time"] == profile.estimate.time
    assert data["resources"]["registers"] == profile.resources["registers"]
