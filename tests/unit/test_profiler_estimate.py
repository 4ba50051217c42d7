"""The model of time: sheets, its monotony, what limits constructed kernels, and its ranking."""

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from ptx_texts import element, entry, launch
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES, LAUNCH_SECONDS
from wia_compiler.backends.gpu.occupancy import Occupancy, occupancy
from wia_compiler.backends.gpu.tools import assemble, disassemble
from wia_compiler.profiler.estimate import estimate_run
from wia_compiler.profiler.gpu_costs import cost_of
from wia_compiler.profiler.gpu_model import (
    Work,
    dram_bytes,
    estimate_case,
    estimate_launch,
    estimate_work,
    p_norm,
)
from wia_compiler.profiler.gpu_sheets import SHEETS, TOLERANCE, sheet_for
from wia_compiler.profiler.gpu_warp import warp_cycles

T4, A100, H100 = SHEETS["T4"], SHEETS["A100"], SHEETS["H100"]
MATMUL = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"


@pytest.mark.parametrize(
    ("name", "warps", "blocks", "shared_kib", "unit", "reserved"),
    [
        ("sm_75", 32, 16, 64, 256, 0),
        ("sm_80", 64, 32, 164, 128, 1024),
        ("sm_86", 48, 16, 100, 128, 1024),
        ("sm_89", 48, 24, 100, 128, 1024),
        ("sm_90", 64, 32, 228, 128, 1024),
        ("sm_90a", 64, 32, 228, 128, 1024),
        ("sm_100", 64, 32, 228, 128, 1024),
        ("sm_120", 48, 24, 100, 128, 1024),
    ],
)
def test_what_an_sm_holds(name, warps, blocks, shared_kib, unit, reserved):
    """The constants of ``cuda_occupancy.h`` of CUDA 13.0."""
    row = ARCHITECTURES[name]
    held = (row.max_warps, row.max_blocks, row.shared_kib, row.shared_unit, row.reserved_shared)
    assert held == (warps, blocks, shared_kib, unit, reserved)


def test_sheets_are_those_of_their_architectures():
    assert list(SHEETS) == ["T4", "A100", "RTX 4090", "H100", "H200", "B200", "RTX 5090"]
    for sheet in SHEETS.values():
        row = sheet.facts
        assert sheet.sms == row.sm_count
        assert sheet.rates["f32"].published == pytest.approx(row.flops)
        if row.product.startswith(sheet.name):
            assert sheet.bandwidth == row.bandwidth
        for name, rate in sheet.rates.items():
            assert sheet.peak(name) == pytest.approx(rate.published, rel=TOLERANCE)
        assert sheet.ceilings.rate_for("bf16").value == sheet.rates["f16 tensor"].published


@pytest.mark.parametrize(
    "wrong",
    [
        {"sms": 100},
        {"architecture": "sm_91"},
        {"bandwidth": 9e12},
        {"rates": {"f32": H100.rates["f32"]}},
        {"latencies": dataclasses.replace(H100.latencies, l2=600)},
        {"rates": H100.rates | {"f64": dataclasses.replace(H100.rates["f64"], clock_hz=1.8e9)}},
    ],
)
def test_sheets_check_themselves(wrong):
    with pytest.raises(ValueError, match="H100: "):
        dataclasses.replace(H100, **wrong)


def test_the_first_sheet_that_runs_a_targets_code():
    chosen = {name: sheet_for(f"gpu:{name}") for name in ARCHITECTURES}
    names = {name: sheet.name if sheet else None for name, sheet in chosen.items()}
    assert names == {
        "sm_75": "T4", "sm_80": "A100", "sm_86": "RTX 4090", "sm_89": "RTX 4090",
        "sm_90": "H100", "sm_90a": "H100", "sm_100": "B200", "sm_120": "RTX 5090",
    }  # fmt: skip
    assert sheet_for("gpu:sm_75", "rtx4090") is SHEETS["RTX 4090"]
    assert sheet_for("gpu:sm_90", "h200") is SHEETS["H200"]
    with pytest.raises(wia.ArgumentError, match="T4 is sm_75 and cannot run code for gpu:sm_80"):
        sheet_for("gpu:sm_80", "T4")
    with pytest.raises(wia.ArgumentError, match="expected one of T4, A100"):
        sheet_for("gpu:sm_80", "V100")


BASE = Work(
    1e5,
    {"fp32": 5e4, "fp64": 1e3, "integer": 3e4, "special": 1e3},
    {"f16 tensor": 1e9},
    4e4,
    2e4,
    8e4,
    1e6,
    1e4,
)


def held(blocks: int) -> Occupancy:
    return Occupancy(blocks, 8 * blocks, blocks / 8, "registers", {"registers": blocks})


@pytest.mark.parametrize("sheet", SHEETS.values(), ids=list(SHEETS))
def test_more_work_is_never_faster(sheet):
    for scale, cycles, blocks in itertools.product((1.0, 30.0, 1000.0), (1e2, 1e5), (1, 200, 5000)):

        def time(work, count=4, cycles=cycles, blocks=blocks):
            return estimate_work(sheet, work, held(count), blocks, cycles).time

        base = dataclasses.replace(BASE, footprint_bytes=BASE.footprint_bytes * scale)
        for name in (
            "issued",
            "wavefronts",
            "requests",
            "sectors",
            "footprint_bytes",
            "copied_sectors",
        ):
            grown = [
                dataclasses.replace(base, **{name: getattr(base, name) * k})
                for k in (1, 1.1, 3, 90)
            ]
            times = [time(each) for each in grown]
            assert times == sorted(times), name
            assert times[-1] >= times[0] > LAUNCH_SECONDS
        for name in base.units:
            assert time(dataclasses.replace(base, units=base.units | {name: 1e8})) > time(base)
        assert time(dataclasses.replace(base, tensor={"f16 tensor": 1e14})) > time(base)
        occupied = [time(base, count) for count in (8, 4, 2, 1)]
        assert occupied == sorted(occupied), "fewer blocks on an SM"
        assert time(base, cycles=2 * cycles) >= time(base)


def test_the_last_wave_costs_as_much_as_a_full_one():
    def time(blocks):
        work = Work(100.0 * blocks, {"fp32": 1e4 * blocks}, {}, 0, 0, 0, 0)
        return estimate_work(A100, work, held(1), blocks, 10.0).parts["fp32"]

    assert time(1) == pytest.approx(time(108)) == pytest.approx(1e4 * 32 / 64 / 1.41e9)
    assert time(109) == pytest.approx(2 * time(108)) == pytest.approx(time(216))


def test_what_l2_cannot_hold_comes_again():
    work = dataclasses.replace(BASE, sectors=1e7, footprint_bytes=1e6, copied_sectors=0.0)
    assert dram_bytes(T4, work) == 1e6
    twice = dataclasses.replace(work, footprint_bytes=2.0 * T4.l2_bytes)
    assert dram_bytes(T4, twice) == pytest.approx(2 * T4.l2_bytes + (32e7 - 2 * T4.l2_bytes) / 2)
    assert p_norm([]) == p_norm([0.0]) == 0
    assert p_norm([3.0, 0.0]) == 3 and 3 < p_norm([3.0, 3.0]) < 3.5


def run(body: str, *arrays, block: int = 32, grid: int = 1, variables: str = ""):
    return launch(body, *arrays, block=block, grid=grid, variables=variables)


def alone(body: str, *, far: int = 400) -> float:
    """Cycles of the only warp of a launch."""
    done = run(body, np.zeros(4096, np.float32))
    assert done.flow is not None
    return warp_cycles(done.flow.run_blocks(), done.flow.warps, far, A100.latencies)


def chains(count: int, times: int) -> str:
    """So many independent chains of multiply-adds, in a loop."""
    steps = "".join(
        f"fma.rn.f32 %f{chain}, %f{chain}, %f10, %f11;\n"
        for _ in range(8)
        for chain in range(count)
    )
    return f"""
        mov.f32 %f10, 0f3F000000; mov.f32 %f11, 0f3F800000; mov.u32 %r1, 0;
        {"".join(f"mov.f32 %f{chain}, 0f00000000;" for chain in range(count))}
    again:
        {steps}
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, {times};
        @%p1 bra again;
        {element("%d2", "%d0", 4)} st.global.f32 [%d2], %f0;
    """


def test_a_warp_waits_for_what_it_reads():
    assert alone(chains(1, 10)) == pytest.approx(4 * 80, rel=0.15)
    assert alone(chains(4, 10)) == pytest.approx(4 * 80 + 30, rel=0.15)
    load = f"{element('%d2', '%d0', 4)} ld.global.f32 %f1, [%d2];"
    used = "add.f32 %f2, %f1, %f1; st.global.f32 [%d2], %f2;"
    assert alone(load + used) > 400 > alone(load) > 0
    both = "ld.global.f32 %f3, [%d2+128]; add.f32 %f4, %f1, %f3; st.global.f32 [%d2], %f4;"
    assert alone(load + both) < 440, "two loads are under way at once"
    exact = "div.rn.f32 %f2, %f1, %f1; st.global.f32 [%d2], %f2;"
    assert alone(load + exact) > alone(load + used)


def test_a_load_for_the_next_turn_is_hidden():
    def loop(prefetched: bool) -> float:
        load = "ld.global.f32 %f1, [%d2];"
        use = "".join("fma.rn.f32 %f2, %f2, %f1, %f3;\n" for _ in range(120))
        order = f"mov.f32 %f1, %f4; ld.global.f32 %f4, [%d2]; {use}" if prefetched else load + use
        return alone(
            f"""{element("%d2", "%d0", 4)} mov.f32 %f2, 0f00000000; mov.f32 %f3, %f2;
            mov.u32 %r1, 0; ld.global.f32 %f4, [%d2];
            again: {order}
            add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20; @%p1 bra again;
            st.global.f32 [%d2], %f2;"""
        )

    assert loop(True) + 15 * 300 < loop(False)


def test_copies_that_are_waited_for_later_are_hidden():
    def loop(pending: int) -> float:
        return alone_shared(
            f"""{element("%d2", "%d0", 16)} mov.u32 %r2, tile; shl.b32 %r3, %r0, 4;
            add.u32 %r2, %r2, %r3; mov.u32 %r1, 0;
            cp.async.cg.shared.global [%r2], [%d2], 16; cp.async.commit_group;
            again:
            cp.async.cg.shared.global [%r2], [%d2], 16; cp.async.commit_group;
            cp.async.wait_group {pending};
            {"".join("mul.f32 %f1, %f1, %f1;" for _ in range(110))}
            add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20; @%p1 bra again;
            cp.async.wait_all;"""
        )

    def alone_shared(body: str) -> float:
        done = run(body, np.zeros(512, np.float32), variables=".shared .align 16 .b8 tile[512];")
        return warp_cycles(done.flow.run_blocks(), 1, 400, A100.latencies)

    assert loop(1) + 15 * 300 < loop(0)


def test_a_copy_is_limited_by_dram():
    body = f"""
        mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 256, %r0;
        {element("%d2", "%d0", 16, "%r2")} {element("%d3", "%d1", 16, "%r2")}
        ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d2];
        st.global.v4.f32 [%d3], {{%f0, %f1, %f2, %f3}};
    """
    x = np.zeros(1 << 20, np.float32)
    done = run(body, x, np.zeros_like(x), block=256, grid=1024)
    found = estimate_launch(T4, done, registers=16, footprint_bytes=2 * x.nbytes)
    assert max(found.parts, key=found.parts.get) == "DRAM"
    assert found.time == pytest.approx(2 * x.nbytes / 320e9 / 0.9 + LAUNCH_SECONDS, rel=0.05)
    assert found.occupancy.ratio == 1


def test_multiply_adds_are_limited_by_latency_or_by_their_unit():
    out = np.zeros(1024, np.float32)
    few = estimate_launch(A100, run(chains(1, 50), out), registers=16)
    assert max(few.parts, key=few.parts.get) == "latency"
    many = estimate_launch(A100, run(chains(8, 50), out, block=1024, grid=216), registers=16)
    assert max(many.parts, key=many.parts.get) == "fp32"
    lanes = 216 * 1024 * 8 * 8 * 50 * 2
    assert many.parts["fp32"] == pytest.approx(lanes / A100.peak("f32"), rel=0.01)


def test_bank_conflicts_are_shared_memorys():
    def time(stride: int):
        body = f"""
            mov.u32 %r1, tile; mul.lo.u32 %r2, %r0, {4 * stride}; and.b32 %r2, %r2, 4095;
            add.u32 %r1, %r1, %r2; mov.u32 %r3, 0;
            again: {"st.shared.u32 [%r1], %r3;" * 16}
            add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 20; @%p1 bra again;
        """
        done = run(
            body, np.zeros(4), block=256, grid=80, variables=".shared .align 4 .b8 tile[4096];"
        )
        return estimate_launch(T4, done, registers=16)

    times = [time(stride) for stride in (1, 8, 32)]
    assert [each.time for each in times] == sorted(each.time for each in times)
    assert max(times[-1].parts, key=times[-1].parts.get) == "shared memory"
    assert times[-1].parts["shared memory"] > 30 * times[0].parts["shared memory"]


def test_a_block_that_does_not_fit_is_refused():
    done = run("", np.zeros(4), block=512)
    with pytest.raises(wia.ArgumentError, match="T4 cannot hold a block of this launch: registers"):
        estimate_launch(T4, done, registers=255)
    with pytest.raises(wia.ArgumentError, match="got the sum of several"):
        estimate_launch(T4, done + done)


def test_occupancy_costs_time():
    done = run(chains(1, 50), np.zeros(1024, np.float32), block=256, grid=800)
    times = [estimate_launch(T4, done, registers=count).time for count in (32, 64, 128, 255)]
    ratios = [
        occupancy(T4.facts, 256, registers=count, shared_bytes=0).ratio
        for count in (32, 64, 128, 255)
    ]
    assert times == sorted(times) and ratios == sorted(ratios, reverse=True)
    assert times[-1] > 1.1 * times[0]


def test_matrix_products_count_for_tensor_cores():
    body = """
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
            {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f0, %f1, %f2, %f3};
    """
    flow = run(body, np.zeros(4)).flow
    costs = [cost_of(each) for block in flow.run_blocks() for each in block.code]
    (product,) = [each for each in costs if each.tensor]
    assert (product.tensor, product.flops) == ("f16 tensor", 2 * 16 * 8 * 16)
    assert "mma" in entry(body)


def test_products_of_warpgroups_reach_all_of_the_rate():
    def time(name: str) -> float:
        work = dataclasses.replace(BASE, tensor={name: 1e12})
        return estimate_work(H100, work, held(1), 132, 10.0).parts["tensor"]

    assert time("f16 tensor by warpgroup") == pytest.approx(0.63 * time("f16 tensor"))


def test_bulk_copies_come_from_l2_and_dram_and_pass_by_l1():
    A = np.ones((256, 192), np.float16)
    text = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
    kernel = wia.compile(text).mm
    build = kernel.build(A, A.T.copy(), target="gpu:sm_90a")
    assert "cp.async.bulk.tensor" in build.assembly("ptx")
    (found,) = build.profile(A, A.T.copy(), device="H100").estimate.launches
    work = found.case.work
    assert work.copied_sectors * 32 >= 2 * A.nbytes
    assert work.footprint_bytes == 2 * A.nbytes + 2 * 256 * 256
    without = dataclasses.replace(work, copied_sectors=0.0)
    parts = estimate_case(dataclasses.replace(found.case, work=without)).parts
    assert parts["L2"] < found.parts["L2"] and parts["L1"] == found.parts["L1"]


OPERATIONS = (
    "mov.b32 %r4, %r3;", "div.rn.f32 %f3, %f1, %f2;", "div.full.f32 %f3, %f1, %f2;",
    "sqrt.rn.f32 %f3, %f1;", "rcp.rn.f32 %f3, %f1;", "ex2.approx.f32 %f3, %f1;",
    "ex2.approx.ftz.f32 %f3, %f1;", "div.s32 %r3, %r1, %r2;", "rem.u32 %r3, %r1, %r2;",
    "mul.lo.s64 %d3, %d1, %d2;", "add.s64 %d3, %d1, %d2;", "div.rn.f64 %g3, %g1, %g2;",
    "fma.rn.f32 %f3, %f1, %f2, %f1;", "cvt.rn.f32.s32 %f3, %r1;",
)  # fmt: skip


@needs_ptxas
def test_instructions_become_about_as_many_as_ptxas_makes():
    """On the way that ordinary numbers take: what is rare (subnormal ones) is called."""
    registers = ".reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>; .reg .f64 %g<9>;"
    spaces = {"r": "b32", "f": "f32", "d": "b64", "g": "f64"}
    loads = "".join(
        f"ld.global.{type} %{letter}{number}, [%d0+{64 * at + 8 * number}];\n"
        for at, (letter, type) in enumerate(spaces.items())
        for number in (1, 2)
    )
    stores = "".join(
        f"st.global.{type} [%d0+{64 * at + 32}], %{letter}3;\n"
        for at, (letter, type) in enumerate(spaces.items())
    )
    copies = "mov.b32 %r3, %r1; mov.f32 %f3, %f1; mov.b64 %d3, %d1; mov.f64 %g3, %g1;"
    text = ".version 7.8\n.target sm_80\n.address_size 64\n" + "".join(
        f".visible .entry k{number}(.param .u64 x) {{ {registers} ld.param.u64 %d0, [x];\n{loads}"
        f"{copies} {operation}\n{stores} ret; }}\n"
        for number, operation in enumerate(OPERATIONS)
    )
    counts = sass_until_exit(disassemble(assemble(text, "sm_80").cubin))
    assert len(counts) == len(OPERATIONS)
    memory = np.zeros(64)
    for number, operation in enumerate(OPERATIONS):
        flow = wia.ptx.run(text, f"k{number}", 1, 1, [memory]).flow
        name = operation.partition(" ")[0]
        code = [each for block in flow.run_blocks() for each in block.code]
        costs = [cost_of(each) for each in code if each.decoded.instruction.name == name]
        made = counts[f"k{number}"] - counts["k0"]
        assert costs[-1].issued == pytest.approx(made, rel=0.3, abs=1.5), (operation, made)


def sass_until_exit(text: str) -> dict[str, int]:
    """Instructions on the usual way to the first EXIT: branches around calls are taken."""
    counts: dict[str, int] = {}
    for section in re.split(r"\.section\s+\.text\.", text)[1:]:
        name, skipped, count = section.partition(",")[0], "", 0
        for label, each in re.findall(r"^(\.L_\w+):|/\*[0-9a-f]{4,}\*/\s+(.*?);", section, re.M):
            if label:
                skipped = "" if label == skipped else skipped
            elif not skipped:
                count += 1
                branch = re.match(r"@!?\w+ BRA .*?(\.L_\w+)", each)
                skipped = branch[1] if branch else ""
                if "EXIT" in each:
                    break
        counts[name] = count
    return counts


def test_the_page_ranks_schedules_of_a_product(capsys):
    """More registers of each thread, fewer loads of shared memory: the first thing one tunes."""
    page = (Path(__file__).parents[2] / "docs" / "profiling.md").read_text("utf-8")
    ranking, *others = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(ranking, names)
    for other in others:
        exec(other, {})
    code = "\n".join((ranking, *others))
    said = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said != []
    assert names["times"][1] > 1.2 * names["times"][0]
    listed = re.findall(r"^\| (`[a-zA-Z0-9 `,]*`) \|", page, re.MULTILINE)
    parts = {word for row in listed for word in re.findall(r"`([^`]*)`", row)}
    assert parts == set(names["profile"].estimate.parts) - {"launch"}


def test_a_simulated_profile_has_an_estimate_and_no_time():
    a = np.ones((48, 40), np.float32)
    kernel = wia.compile(MATMUL).mm
    profile = kernel.profile(a, a.T.copy(), target="gpu:sm_90")
    estimate = profile.estimate
    assert profile.time is None and profile.source == "simulated"
    assert estimate.source == "model" and estimate.device == "H100"
    low, high = estimate.error_band
    assert (low, high) == (0.5 * estimate.time, 1.5 * estimate.time)
    assert estimate.limiter == "launch" == max(estimate.parts, key=estimate.parts.get)
    assert estimate.roofline.achieved == pytest.approx(profile.flops / estimate.time)
    assert profile.roofline.achieved is None
    assert "estimate: H100: " in str(profile) and "a model, ±50 %" in str(profile)
    other = kernel.profile(a, a.T.copy(), target="gpu:sm_90", device="H200").estimate
    assert other.device == "H200" and other.roofline.ceilings.machine == "H200"
    assert kernel.profile(a, a.T.copy(), target="gpu:sm_100").estimate.device == "B200"


def test_launches_follow_one_another_and_may_be_none():
    kernel = wia.compile(
        "kernel k(input A: tensor, output C: tensor) { C = softmax(A @ relu(A @ A), dim=1); }"
    ).k.to("gpu:sm_80")
    a = np.ones((64, 64), np.float32)
    build = kernel.build(a)
    estimate = build.profile(a).estimate
    ran = build.executable.last_run
    assert len(ran) > 1 and estimate.parts["launch"] == len(ran) * LAUNCH_SECONDS
    alone = [estimate_run(A100, [each], {}, flops=1, size_bytes=1) for each in ran]
    assert sum(each.time for each in alone) == pytest.approx(estimate.time, rel=0.2)
    assert all(each.note.endswith("without ptxas registers are not counted") for each in alone)
    nothing = np.ones((0, 64), np.float32)
    scale = wia.compile("kernel k(input A: tensor, output C: tensor) { C = A * 2.0; }").k
    empty = scale.profile(nothing, target="gpu:sm_80").estimate
    assert (empty.time, empty.error_band, empty.roofline.achieved) == (0, (0, 0), None)
    assert "nothing is launched" in str(empty)


def test_a_device_is_for_gpus_only():
    kernel = wia.compile(MATMUL).mm
    with pytest.raises(wia.ArgumentError, match="cpu is measured here: leave it out"):
        kernel.profile(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), device="H100")
