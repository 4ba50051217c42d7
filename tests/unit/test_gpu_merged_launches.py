"""Independent kernels in one launch: what they compute, what they share, what may be merged."""

import re

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu import merge_launches
from wia_compiler.backends.gpu.architecture import ARCHITECTURES, LAUNCH_SECONDS
from wia_compiler.backends.gpu.execute import gpu_is_here
from wia_compiler.backends.gpu.launch import LaunchPart, LaunchPlan, plan_of
from wia_compiler.backends.gpu.launch_costs import Spent, registers_of, spent_by
from wia_compiler.backends.gpu.launch_effects import effects_of
from wia_compiler.backends.gpu.launch_model import Part, dealt_cycles, merging_of, widest
from wia_compiler.backends.gpu.merge_launches import MOST_PARTS, MergeLaunchesPass
from wia_compiler.backends.gpu.written_boxes import box_of
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import context, parse_ir
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.profiler.gpu_model import part_cycles
from wia_compiler.simulators import ptx
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.parser import Parser

RNG = np.random.default_rng(7)
A100, H100 = ARCHITECTURES["sm_80"], ARCHITECTURES["sm_90a"]
on_simulator = pytest.mark.skipif(gpu_is_here(), reason="kernels run on this machine's GPU")

MIXED = """
kernel mixed(
    input a: tensor, input b: tensor, input c: tensor, input d: tensor, input e: tensor,
    input f: tensor, input g: tensor, input at: tensor,
    output s: tensor, output r: tensor, output p: tensor, output q: tensor, output u: tensor,
    output v: tensor, output w: tensor
) {
    s = softmax(a);
    r = relu(b);
    p = c @ d;
    q = e @ f;
    u = cumsum(g, dim=1);
    v = reduce_sum(g, axis=0);
    w = gather(g, 0, at);
}
"""


def mixed_arrays() -> list[np.ndarray]:
    """Odd sizes, a view with strides, NaN and infinities."""
    shapes = ((3, 127), (17,), (17, 33), (33, 9), (64, 48), (48, 96), (5, 127))
    arrays: list[np.ndarray] = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    arrays[1][:4] = (np.nan, np.inf, -np.inf, -0.0)
    arrays[2] = np.asfortranarray(arrays[2])
    arrays[4:6] = [each.astype(np.float16) for each in arrays[4:6]]
    return [*arrays, RNG.integers(0, 5, (3, 127)).astype(np.int32)]


@pytest.fixture(scope="module")
def arrays() -> list[np.ndarray]:
    return mixed_arrays()


@pytest.fixture(scope="module")
def kernel() -> wia.Kernel:
    return wia.compile(MIXED).mixed


@pytest.fixture(scope="module")
def build(kernel, arrays) -> wia.Build:
    return kernel.build(*arrays, target="gpu:sm_80", debug=True)


@on_simulator
def test_a_merged_launch_computes_what_its_parts_do(kernel, arrays, build):
    """Rows, products by threads and tensor cores, scans, columns, parts of warps: in one."""
    for found, wanted in zip(build(*arrays), wia.reference(kernel, *arrays), strict=True):
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=2e-3, atol=2e-3
        )


@on_simulator
def test_indices_are_checked_in_a_part_too(arrays, build):
    wrong = [*arrays[:-1], arrays[-1].copy()]
    wrong[-1][2, 100] = 5
    with pytest.raises(wia.OutOfRangeError, match="5"):
        build(*wrong)


def test_the_plan_has_one_launch_whose_parts_take_ranges_of_its_blocks(build):
    plan = LaunchPlan.from_metadata(build.artifact.metadata)
    (launch,) = plan.launches
    assert len(launch.parts) == 7
    assert launch.blocks == sum(part.blocks for part in launch.parts)
    assert launch.threads == max(part.threads for part in launch.parts) == 254
    longest = [part.cycles for part in launch.parts]
    assert launch.parts[0].entry == "mixed_matmul" and max(longest) == longest[0]
    assert LaunchPlan.from_metadata(plan.to_metadata()) == plan


def test_each_taking_in_is_a_decision_with_its_numbers(build):
    decisions = build.stage("merge-launches").decisions
    assert [each.kind for each in decisions if each.taken] == ["horizontal"] * 6
    first, last = decisions[0], decisions[-1]
    assert (
        first.candidate == "softmax | relu" and last.candidate == "softmax | 5 more | mixed_gather"
    )
    assert first.numbers["blocks"] == "3 + 1" and first.numbers["threads"] == "64, 17"
    assert first.numbers["benefit"] >= 1e6 * LAUNCH_SECONDS and first.numbers["cost"] == 0
    for name in ("registers_estimated", "shared", "waves", "joint_blocks_per_sm"):
        assert name in first.numbers
    assert first.subjects


@needs_ptxas
def test_shared_memory_and_registers_are_those_of_the_largest_part(build):
    (entry,) = build.resources["entries"].values()
    listed = str(build.stage("merge-launches").decisions[-1].numbers["shared"]).split(", ")
    shared = [int(each.replace(",", "")) for each in listed]
    assert sum(shared) > max(shared) == entry["static_shared_bytes"]
    assert entry["spill_store_bytes"] == 0
    # What a table of launches calls it by, the explorer's among them.
    assert entry["merged"].startswith("mixed_matmul 1, ") and "softmax 3" in entry["merged"]


def test_barriers_of_a_smaller_part_count_its_threads(build):
    barriers = set(re.findall(r"bar\.sync\s+(.*);", build.assembly("ptx")))
    assert barriers == {"0, 64", "0, 128"}


def test_lines_of_the_code_lead_to_the_statement_of_their_part(build):
    """Locations go through: each statement has instructions of its own."""
    spans = build.stage("ptx").line_spans
    lines = {span.line for found in spans.values() for span in found}
    first = MIXED.split("\n").index("    s = softmax(a);") + 1
    assert lines >= set(range(first, first + 7))


@on_simulator
def test_both_engines_agree_on_a_merged_launch(build, arrays):
    plan = LaunchPlan.from_metadata(build.artifact.metadata)
    (launch,) = plan.launches
    outcomes = []
    for engine in ("numpy", "compiled"):
        outputs = [np.zeros(o.spec.shape, o.spec.dtype.numpy) for o in build.outputs]
        status = [np.zeros(size, np.uint8) for size in plan.workspace_bytes]
        held = [*arrays, *outputs, *status]
        given = [held[number] for number in launch.buffers]
        text = build.artifact.files["kernel.ptx"].decode()
        done = ptx.run(text, launch.entry, launch.blocks, launch.threads, given, engine=engine)
        outcomes.append((outputs, dict(done.counters)))
    for one, other in zip(outcomes[0][0], outcomes[1][0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert outcomes[0][1] == outcomes[1][1]


TWO = """
kernel two(input a: tensor, input b: tensor, output s: tensor, output r: tensor) {
    s = softmax(a);
    r = relu(b);
}
"""


@needs_ptxas
@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_every_architecture_takes_a_merged_kernel(architecture):
    specs = wia.spec((3, 127), "f32"), wia.spec((17,), "f32")
    build = wia.compile(TWO).two.build(*specs, target=f"gpu:{architecture}")
    assert build.resources["kernels"] == 1 and not build.resources["warnings"]
    assert build.resources["spill_store_bytes"] == 0


@on_simulator
def test_products_of_warpgroups_share_a_launch():
    """Tensor maps of all parts are parameters; stages lie over one another."""
    text = """kernel k(input x: tensor, input q: tensor, input v: tensor,
                       output a: tensor, output b: tensor) { a = x @ q; b = x @ v; }"""
    shapes = ((64, 64), (64, 128), (64, 64))
    arrays = [RNG.integers(-4, 5, shape).astype(np.float16) for shape in shapes]
    build = wia.compile(text).k.build(*arrays, target="gpu:sm_90a", debug=True)
    (launch,) = LaunchPlan.from_metadata(build.artifact.metadata).launches
    assert len(launch.parts) == 2 and len(launch.tensor_maps) == 4
    assert "wgmma" in build.assembly("ptx") and not build.resources.get("warnings")
    x, *others = (each.astype(np.float32) for each in arrays)
    for found, other in zip(build(*arrays), others, strict=True):
        np.testing.assert_array_equal(found.astype(np.float32), x @ other)


# What may be merged, on kernels written by hand: each copies one array to another.
COPY = """
  func.func @NAME(%x: memref<64xf32>, %y: memref<64xf32>)
      attributes {wia.nest, gpu.kernel, wia.block_size = 64 : i64, wia.grid_size = 1 : i64} {
    %thread = gpu.thread_id x
    %0 = memref.load %x[%thread] : memref<64xf32>
    memref.store %0, %y[%thread] : memref<64xf32>
    func.return
  }
"""


def merged(calls: str, *, kernels: str = "", names: str = "abcd") -> list[str]:
    """The kernels that a host launches in turn, after merging."""
    module = merged_module(calls, kernels=kernels, names=names)[0]
    (host,) = (op for op in module.ops if isinstance(op, FuncOp) and "wia.host" in op.attributes)
    return [op.callee.string_value() for op in host.walk() if isinstance(op, CallOp)]


def merged_module(calls: str, *, kernels: str = "", names: str = "abcd"):
    lines = "".join(f"    {line.strip()}\n" for line in calls.strip().split("\n"))
    lines = lines.replace("call @", "func.call @")
    lines = lines.replace(")\n", ") : (memref<64xf32>, memref<64xf32>) -> ()\n")
    arguments = ", ".join(f"%{name}: memref<64xf32>" for name in ("p", "q", "r", "s", "t"))
    text = f"builtin.module {{\n  func.func @k({arguments}) attributes {{wia.host}} {{\n{lines}"
    text += "    func.return\n  }\n" + "".join(COPY.replace("NAME", n) for n in names) + kernels
    module = parse_ir(text + "}\n")
    context = PassContext(Source(""), "k", TargetFacts("gpu", 0, 0.0, 0))
    MergeLaunchesPass(A100).run(module, context)
    module.verify()
    return module, context.decisions


def test_launches_that_share_nothing_or_only_read_the_same_are_merged():
    assert merged("call @a(%p, %q)\ncall @b(%r, %s)") == ["a_and_b"]
    assert merged("call @a(%p, %q)\ncall @b(%p, %s)") == ["a_and_b"]


@pytest.mark.parametrize(
    "second", ["%q, %r", "%r, %p", "%r, %q"], ids=["read after write", "write after read", "write"]
)
def test_launches_of_which_one_writes_what_the_other_touches_stay_in_order(second):
    assert merged(f"call @a(%p, %q)\ncall @b({second})") == ["a", "b"]


def half(name: str, first: int, last: int) -> str:
    """A kernel that is known to write some elements alone."""
    noted = f"wia.written = [array<i64>, array<i64: {first}, {last}>], wia.nest"
    return COPY.replace("NAME", name).replace("wia.nest", noted)


def test_parts_of_one_array_are_written_in_one_launch_and_shared_elements_in_order():
    calls = "call @low(%p, %q)\ncall @high(%r, %q)"
    assert merged(calls, kernels=half("low", 0, 31) + half("high", 32, 63)) == ["low_and_high"]
    assert merged(calls, kernels=half("low", 0, 32) + half("high", 32, 63)) == ["low", "high"]
    # Who reads the array waits for all of its parts.
    calls += "\ncall @a(%q, %s)"
    kernels = half("low", 0, 31) + half("high", 32, 63)
    assert merged(calls, kernels=kernels) == ["low_and_high", "a"]


@on_simulator
@pytest.mark.parametrize(
    "expression,names",
    [
        ("concat([a, b], 1)", "ab"),
        ("concat([a, b, transpose(transpose(a))], 0)", "ab"),
        ("pad(a, [1, 2, 3, 4])", "a"),
        ("roll(a, 3, 1)", "a"),
    ],
)
def test_pieces_of_a_result_share_a_launch(expression, names):
    inputs = "".join(f"input {name}: tensor, " for name in names)
    text = f"kernel k({inputs}output y: tensor) {{ y = {expression}; }}"
    arrays = [RNG.standard_normal((17, 33)).astype(np.float32) for _ in names]
    kernel = wia.compile(text).k
    build = kernel.build(*arrays, target="gpu:sm_80", debug=True)
    plan = LaunchPlan.from_metadata(build.artifact.metadata)
    pieces = plan.launches[-1].parts
    assert len(pieces) >= 2, [launch.entry for launch in plan.launches]
    np.testing.assert_array_equal(build(*arrays), wia.reference(kernel, *arrays))


@pytest.mark.parametrize(
    "expression,boxes",
    [
        ("concat([a, b], 1)", {((0, 99), (0, 29)), ((0, 99), (30, 69))}),
        ("concat([a, b, a], 1)", {((0, 99), (0, 29)), ((0, 99), (30, 69)), ((0, 99), (70, 99))}),
        ("a + reduce_sum(b)", set()),
    ],
)
def test_boxes_that_kernels_write(expression, boxes):
    text = f"kernel k(input a: tensor, input b: tensor, output y: tensor) {{ y = {expression}; }}"
    specs = wia.spec((100, 30), "f32"), wia.spec((100, 40), "f32")
    build = wia.compile(text).k.build(*specs, target="gpu:sm_80")
    kernels = [op for op in parse_ir(build.stage("lower").text).ops if isinstance(op, FuncOp)]
    found = {box_of(each, number) for each in kernels for number in range(len(each.args))}
    assert found - {None} == boxes


def test_a_view_of_a_buffer_is_the_buffer():
    view = (
        "%v = memref.reinterpret_cast %q to offset: [0], sizes: [64], strides: [1] : "
        "memref<64xf32> to memref<64xf32>"
    )
    assert merged(f"call @a(%p, %q)\n{view}\ncall @b(%v, %r)") == ["a", "b"]


def test_a_launch_moves_past_those_it_does_not_wait_for():
    calls = "call @a(%p, %q)\ncall @b(%q, %r)\ncall @c(%p, %s)"
    assert merged(calls) in (["a", "b_and_c"], ["a_and_c", "b"])
    # d waits for c alone, which went up to a.
    calls = "call @a(%p, %q)\ncall @b(%q, %r)\ncall @c(%p, %s)\ncall @d(%s, %t)"
    assert len(merged(calls)) == 2


def test_scratch_memory_that_is_written_again_keeps_its_order():
    calls = """
        %w = memref.alloc() : memref<64xf32>
        call @a(%p, %w)
        call @b(%w, %q)
        call @c(%r, %w)
        call @d(%w, %s)"""
    assert merged(calls) == ["a", "b", "c", "d"]


def test_allocations_come_before_the_launch_that_moved_up():
    calls = """
        call @a(%p, %q)
        %w = memref.alloc() : memref<64xf32>
        call @b(%r, %w)
        call @c(%w, %s)"""
    module, _ = merged_module(calls)
    plan = plan_of(module, {"a_and_b": "a_and_b", "c": "c"})
    assert [launch.entry for launch in plan.launches] == ["a_and_b", "c"]
    assert plan.workspace_bytes == (256,)
    assert [part.entry for part in plan.launches[0].parts] == ["a", "b"]


def test_a_kernel_that_is_launched_twice_is_taken_twice():
    module, _ = merged_module("call @a(%p, %q)\ncall @a(%r, %s)", names="a")
    (merged_kernel,) = (op for op in module.ops if isinstance(op, FuncOp) and len(op.args) == 4)
    assert sum(op.name == "memref.store" for op in merged_kernel.walk()) == 2
    assert [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)] == ["k", "a_and_a"]


def test_parts_without_blocks_are_left_out_and_too_many_are_not_joined():
    nothing = COPY.replace("NAME", "n").replace("wia.grid_size = 1", "wia.grid_size = 0")
    calls = "call @a(%p, %q)\ncall @n(%r, %s)\ncall @b(%r, %s)"
    assert merged(calls, kernels=nothing) == ["a_and_b", "n"]
    many = "".join(COPY.replace("NAME", f"m{n}") for n in range(MOST_PARTS + 2))
    allocs = "\n".join(f"%w{n} = memref.alloc() : memref<64xf32>" for n in range(MOST_PARTS + 2))
    calls = "\n".join(f"call @m{n}(%p, %w{n})" for n in range(MOST_PARTS + 2))
    found = merged(f"{allocs}\n{calls}", kernels=many)
    assert found == [f"m0_and_{MOST_PARTS - 1}_more", f"m{MOST_PARTS}_and_m{MOST_PARTS + 1}"]


def test_threads_that_are_no_whole_warps_and_wait_are_not_put_into_larger_blocks():
    waits = COPY.replace("NAME", "w").replace("wia.block_size = 64", "wia.block_size = 17")
    alone = waits.replace("@w", "@v")
    waits = waits.replace("    func.return", '    "gpu.barrier"() : () -> ()\n    func.return')
    assert merged("call @a(%p, %q)\ncall @v(%r, %s)", kernels=alone) == ["a_and_v"]
    _, decisions = merged_module("call @a(%p, %q)\ncall @w(%r, %s)", kernels=waits)
    assert not decisions[-1].taken and "17 threads, no whole warps" in decisions[-1].reason


def test_an_op_that_nobody_knows_reads_and_writes():
    unknown = COPY.replace("NAME", "u").replace(
        "    func.return", '    "test.op"(%x) : (memref<64xf32>) -> ()\n    func.return'
    )
    module = parse_ir_allowing(unknown)
    kernel, host = module
    (call,) = (op for op in host.walk() if isinstance(op, CallOp))
    found = effects_of(call, kernel)
    assert found.reads == {call.arguments[0]} and found.written == set(call.arguments)


def parse_ir_allowing(kernel: str) -> tuple[FuncOp, FuncOp]:
    """A kernel with unregistered ops, and a host that calls it."""
    known = context()
    known.allow_unregistered = True
    host = """
  func.func @k(%p: memref<64xf32>, %q: memref<64xf32>) attributes {wia.host} {
    func.call @u(%p, %q) : (memref<64xf32>, memref<64xf32>) -> ()
    func.return
  }
"""
    module = Parser(known, f"builtin.module {{{host}{kernel}}}").parse_module()
    first, second = (op for op in module.ops if isinstance(op, FuncOp))
    return second, first


# The model.


def part(blocks: int, *, threads=256, registers=32, shared=0, steps=2000.0, size=1 << 20) -> Part:
    return Part("p", blocks, threads, registers, shared, 0, Spent(steps, 500.0), size)


def joined(architecture, one: Part, other: Part):
    return merging_of(architecture, [[one], [other]], widest([one, other]))


def test_a_launch_that_does_not_fill_the_gpu_gains_by_another():
    found = joined(A100, part(20), part(50))
    assert found.pays and found.cost == 0 and found.benefit > LAUNCH_SECONDS


def test_a_block_that_takes_the_others_shared_memory_is_refused():
    """A copy of many waves beside a product of few blocks that take an SM's shared memory each."""
    small, large = part(20_000), part(108, shared=160 * 1024)
    found = joined(A100, small, large)
    assert found.held.ctas_per_sm == 1 and found.alone[0].ctas_per_sm == 8
    assert not found.pays and found.cost > found.benefit
    registers = joined(A100, part(20_000), part(108, registers=255))
    assert registers.cost > 0 and registers.held.ctas_per_sm == 1


def test_two_launches_of_many_waves_save_too_little():
    large = part(100_000, steps=50_000.0)
    found = joined(H100, large, large)
    assert not found.pays and found.benefit > 1.5 * found.cost


def test_blocks_are_dealt_out_as_slots_come_free():
    assert dealt_cycles([(10.0, 4)], 4) == 10
    assert dealt_cycles([(10.0, 5)], 4) == 20
    assert dealt_cycles([(10.0, 2), (4.0, 6)], 4) == 12
    assert dealt_cycles([], 4) == 0
    # More waves than are dealt out one by one: within half a turn of the whole.
    assert dealt_cycles([(10.0, 4000)], 4) == 10_005


def test_cycles_of_a_merged_launch_are_shared_out_among_its_parts():
    parts = [LaunchPart("a", 10, 128, 900), LaunchPart("b", 30, 64, 300)]
    # 40 blocks of 4 warps: 40 warps of a, 60 of b.
    average, longest = part_cycles(54.0 / 160 * 1000, 160, parts)
    assert longest == pytest.approx(900)
    assert average == pytest.approx((10 * 900 + 30 * 300) / 40)
    assert part_cycles(77.0, 4, ()) == (77.0, 77.0)


@needs_ptxas
def test_registers_are_estimated_before_ptxas_knows(kernel, arrays, monkeypatch):
    """Within a factor of two, or eight registers, of what ptxas takes: for each kernel alone."""
    estimated = {}

    def noted(function, threads):
        found = registers_of(function, threads)
        estimated[function.sym_name.data] = found
        assert spent_by(function.body.block).instructions > 0
        return found

    monkeypatch.setattr(merge_launches, "registers_of", noted)
    monkeypatch.setattr(merge_launches, "_refusal_by_numbers", lambda merging: "apart")
    build = kernel.build(*arrays, target="gpu:sm_86")
    entries = build.resources["entries"]
    assert len(entries) == 7
    for name, entry in entries.items():
        used = entry["registers"]
        assert used / 2 - 8 <= estimated[name] <= 2 * used + 8, (name, used, estimated[name])
    assert all(each.reason == "apart" for each in build.stage("merge-launches").decisions)
