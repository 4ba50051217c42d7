"""Loops written out as hints ask: what stands there then, and that it computes the same."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from llvm_running import load_module
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.base.record import Decision
from wia_compiler.dialects.loop_hints import LoopHints, Prefetch, hints_of, note_hints
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.llvm.emit import emit_llvm
from wia_compiler.passes.llvm.options import x86_options
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from wia_compiler.passes.scf_rewrites import expand_hints
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp

HEAD = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index"""
UNROLL = "wia.unroll = 4 : i64"
ACCUMULATE = "wia.accumulators = 4 : i64"
PIPELINE = "wia.pipeline = 2 : i64"


def module_of(parameters: str, body: str) -> ModuleOp:
    """A host function ``k`` whose body the text is."""
    made = parse_ir(
        f"func.func @k({parameters}) attributes {{wia.host}} {{{HEAD}\n{body}\nfunc.return }}"
    )
    made.verify()
    return made


def expand(module: ModuleOp) -> list[Decision]:
    """Write out the hints of a module; its text reads back afterwards."""
    decisions: list[Decision] = []
    for function in module.ops:
        assert isinstance(function, func.FuncOp)
        decisions += expand_hints(function)
    module.verify()
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)
    return decisions


def run(module: ModuleOp, inputs: Sequence[Any], *outputs: Any) -> list[Any]:
    """Run a module on arrays; outputs are new arrays like those given."""
    made = [np.array(each) for each in outputs]
    arrays = [np.asarray(each) for each in inputs]
    load_module(module, "k", len(arrays) + len(made), opt=0)(arrays, made)
    return made


def loops_of(module: ModuleOp) -> list[scf.ForOp]:
    return [op for op in module.walk() if isinstance(op, scf.ForOp)]


def lines_of(module: ModuleOp) -> list[str]:
    return [line.strip() for line in print_ir(module).splitlines()]


def vector_add(count: int, hints: str) -> ModuleOp:
    a = f"memref<{count}xf32>"
    return module_of(
        f"%a: {a}, %b: {a}, %c: {a}",
        f"""
      %n = arith.constant {count} : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %a[%i] : {a}
        %y = memref.load %b[%i] : {a}
        %z = arith.addf %x, %y : f32
        memref.store %z, %c[%i] : {a}
      }} {{{hints}}}""",
    )


def fold(count: int, hints: str, op: str = "arith.addf", dtype: str = "f32") -> ModuleOp:
    a = f"memref<{count}x{dtype}>"
    return module_of(
        f"%a: {a}, %first: memref<{dtype}>, %s: memref<{dtype}>",
        f"""
      %n = arith.constant {count} : index
      %start = memref.load %first[] : memref<{dtype}>
      %t = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %start) -> ({dtype}) {{
        %x = memref.load %a[%i] : {a}
        %next = {op} %sum, %x : {dtype}
        scf.yield %next : {dtype}
      }} {{{hints}}}
      memref.store %t, %s[] : memref<{dtype}>""",
    )


def ranged(first: int, last: int, step: int, hints: str) -> ModuleOp:
    """A loop whose bounds come with the data: it counts its iterations and adds their variables."""
    return module_of(
        "%bounds: memref<3xi64>, %s: memref<2xi64>",
        f"""
      %c2 = arith.constant 2 : index
      %l = memref.load %bounds[%c0] : memref<3xi64>
      %u = memref.load %bounds[%c1] : memref<3xi64>
      %t = memref.load %bounds[%c2] : memref<3xi64>
      %lower = arith.index_cast %l : i64 to index
      %upper = arith.index_cast %u : i64 to index
      %by = arith.index_cast %t : i64 to index
      %none = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %n, %sum = scf.for %i = %lower to %upper step %by
          iter_args(%count = %none, %total = %none) -> (i64, i64) {{
        %again = memref.load %bounds[%c0] : memref<3xi64>
        %zero = arith.subi %again, %l : i64
        %more = arith.addi %count, %one : i64
        %value = arith.index_cast %i : index to i64
        %exact = arith.addi %value, %zero : i64
        %next = arith.addi %total, %exact : i64
        scf.yield %more, %next : i64, i64
      }} {{{hints}}}
      memref.store %n, %s[%c0] : memref<2xi64>
      memref.store %sum, %s[%c1] : memref<2xi64>""",
    )


def test_unroll_writes_iterations_one_after_the_other() -> None:
    module = vector_add(10, UNROLL)
    (decision,) = expand(module)
    assert (decision.kind, decision.taken) == ("expand", True)
    text = lines_of(module)
    turns, rest = loops_of(module)
    assert "scf.for %i = %c0 to %c8 step %c4 {" in text
    assert [text.count(f"%{n} = arith.addi %i, %c{n + 1} : index") for n in range(3)] == [1, 1, 1]
    assert sum("memref.store" in line for line in text) == 4 + 1
    assert "scf.for %i_1 = %c8 to %n step %c1 {" in text
    assert not hints_of(turns) and not hints_of(rest)


@pytest.mark.parametrize("hints", [UNROLL, PIPELINE, f"{UNROLL}, wia.pipeline = 3 : i64"])
@pytest.mark.parametrize("count", [1, 3, 4, 17, 127])
def test_elements_are_what_they_were(hints: str, count: int) -> None:
    a, b = np.random.default_rng(count).standard_normal((2, count)).astype(np.float32)
    module = vector_add(count, hints)
    expand(module)
    np.testing.assert_array_equal(run(module, [a, b], a)[0], a + b)


def test_unroll_whole_leaves_no_loop() -> None:
    module = vector_add(5, "wia.unroll")
    expand(module)
    assert not loops_of(module)
    a, b = np.arange(10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(run(module, [a, b], a)[0], a + b)


BOUNDS = [
    *((0, 0, 1), (0, 1, 1), (0, 7, 1), (-5, 6, 1), (-7, -2, 2), (3, 20, 3), (9, 4, 1)),
    (2**62 + 2**61, -(2**62) - 2**61, 1),  # the difference wraps to a positive number
    (-(2**63), -(2**63) + 9, 2),
]


@pytest.mark.parametrize("hints", ["", UNROLL, PIPELINE, ACCUMULATE, f"{ACCUMULATE}, {PIPELINE}"])
def test_bounds_that_come_with_the_data(hints: str) -> None:
    """Also below 0, empty, and where upper - lower does not fit 64 bits."""
    module = ranged(0, 0, 1, hints)
    assert all(each.taken for each in expand(module))
    kernel = load_module(module, "k", 2, opt=0)
    for first, last, step in BOUNDS:
        wanted = [len(range(first, last, step)), sum(range(first, last, step))]
        got = np.zeros(2, np.int64)
        kernel([np.array([first, last, step])], [got])
        assert [int(each) % 2**64 for each in got] == [each % 2**64 for each in wanted]


@pytest.mark.parametrize(("first", "claim"), [(-5, "add nsw"), (0, "add nuw nsw")])
def test_what_counts_up_from_below_zero_wraps_as_unsigned(first: int, claim: str) -> None:
    module = module_of(
        "%a: memref<9xindex>",
        f"""
      %from = arith.constant {first} : index
      %to = arith.constant 4 : index
      scf.for %i = %from to %to step %c1 {{
        memref.store %i, %a[%c0] : memref<9xindex>
      }}""",
    )
    text = emit_llvm(module, x86_options(this_host().triple)).text
    assert f"{claim} i64 %i, 1" in text


def test_whole_unroll_of_an_unknown_number_is_refused() -> None:
    module = ranged(0, 0, 1, "wia.unroll")
    (decision,) = expand(module)
    assert not decision.taken and "not known" in decision.reason
    assert len(loops_of(module)) == 1


def four_sums(values: Any, first: Any) -> Any:
    """The chapter's four accumulators; what remains is added to their sum."""
    whole = len(values) // 4 * 4
    sums = [first, *(values.dtype.type(-0.0) for _ in range(3))]
    for start in range(0, whole, 4):
        sums = [one + x for one, x in zip(sums, values[start : start + 4], strict=True)]
    total = ((sums[0] + sums[1]) + sums[2]) + sums[3] if whole else first
    for x in values[whole:]:
        total = total + x
    return total


@pytest.mark.parametrize("count", [1, 3, 4, 17, 127])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_accumulators_add_in_the_order_that_they_say(count: int, dtype: str) -> None:
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    values = np.random.default_rng(count).standard_normal(count).astype(kind)
    module = fold(count, ACCUMULATE, dtype=dtype)
    expand(module)
    first = kind(0.25)
    (got,) = run(module, [values, first], kind(0))
    assert got == four_sums(values, first)


def test_the_sum_of_negative_zeros_is_one() -> None:
    module = fold(9, ACCUMULATE)
    expand(module)
    zero = np.float32(-0.0)
    (got,) = run(module, [np.full(9, zero), zero], zero)
    assert np.signbit(got)


@pytest.mark.parametrize(
    ("op", "dtype", "wanted"),
    [
        ("arith.addi", "i32", lambda x, s: s + x.sum(dtype=np.int32)),
        ("arith.subi", "i32", lambda x, s: s - x.sum(dtype=np.int32)),
        ("arith.muli", "i32", lambda x, s: np.append(x, s).prod(dtype=np.int32)),
        ("arith.maxsi", "i32", lambda x, s: np.maximum(s, x.max())),
        ("arith.xori", "i32", lambda x, s: s ^ np.bitwise_xor.reduce(x)),
        ("arith.maximumf", "f32", lambda x, s: np.maximum(s, x.max())),
        ("arith.minimumf", "f32", lambda x, s: np.minimum(s, x.min())),
        ("arith.subf", "f32", lambda x, s: s - x.sum()),
        ("arith.mulf", "f32", lambda x, s: s * x.prod()),
    ],
)
def test_every_fold_has_its_neutral_start(op: str, dtype: str, wanted: Any) -> None:
    kind = np.int32 if dtype == "i32" else np.float32
    values = np.arange(2, 15).astype(kind)  # products of floats stay exact enough to compare
    module = fold(13, ACCUMULATE, op, dtype)
    assert expand(module)[0].taken
    (got,) = run(module, [values, kind(3)], kind(0))
    np.testing.assert_allclose(got, wanted(values, kind(3)), rtol=1e-6)


def test_extremes_keep_nan() -> None:
    values = np.array([1, 2, np.nan, 3, 4, 5, 6, 7, 8], np.float32)
    module = fold(9, ACCUMULATE, "arith.maximumf")
    expand(module)
    assert np.isnan(run(module, [values, np.float32(0)], np.float32(0))[0])


def test_accumulators_and_unroll_make_one_loop_of_turns() -> None:
    module = fold(100, f"{ACCUMULATE}, wia.unroll = 10 : i64")
    expand(module)
    assert "scf.for %i = %c0 to %c96 step %c12 iter_args(" in print_ir(module)
    assert len(loops_of(module)) == 2


def test_what_is_no_fold_has_no_accumulators() -> None:
    module = module_of(
        "%a: memref<9xf32>, %s: memref<f32>",
        """
      %n = arith.constant 9 : index
      %start = arith.constant 0.0 : f32
      %t = scf.for %i = %c0 to %n step %c1 iter_args(%state = %start) -> (f32) {
        %x = memref.load %a[%i] : memref<9xf32>
        %half = arith.mulf %state, %x : f32
        %next = arith.addf %half, %x : f32
        scf.yield %next : f32
      } {wia.accumulators = 2 : i64, wia.unroll = 2 : i64}
      memref.store %t, %s[] : memref<f32>""",
    )
    refused, taken = expand(module)
    assert not refused.taken and "state is not folded" in refused.reason
    assert taken.taken and taken.candidate.startswith("k: unroll 2")


def test_accumulators_reach_through_a_loop_inside() -> None:
    module = module_of(
        "%a: memref<8x5xf32>, %s: memref<f32>",
        """
      %n = arith.constant 8 : index
      %m = arith.constant 5 : index
      %start = arith.constant 0.0 : f32
      %t = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %start) -> (f32) {
        %row = scf.for %j = %c0 to %m step %c1 iter_args(%part = %sum) -> (f32) {
          %x = memref.load %a[%i, %j] : memref<8x5xf32>
          %next = arith.addf %part, %x : f32
          scf.yield %next : f32
        }
        scf.yield %row : f32
      } {wia.accumulators = 2 : i64}
      memref.store %t, %s[] : memref<f32>""",
    )
    assert expand(module)[0].taken
    values = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    sums = np.zeros(2, np.float32)
    for number, row in enumerate(values):
        for x in row:
            sums[number % 2] += x
    assert run(module, [values], np.float32(0))[0] == sums[0] + sums[1]


def matrix_vector(hints: str = "wia.unroll = 1 : i64", end: str = "%m") -> ModuleOp:
    return module_of(
        "%A: memref<7x9xf32>, %x: memref<9xf32>, %y: memref<7xf32>",
        f"""
      %n = arith.constant 7 : index
      %m = arith.constant 9 : index
      %start = arith.constant 0.0 : f32
      scf.for %i = %c0 to %n step %c1 {{
        %t = scf.for %k = %c0 to {end} step %c1 iter_args(%sum = %start) -> (f32) {{
          %a = memref.load %A[%i, %k] : memref<7x9xf32>
          %b = memref.load %x[%k] : memref<9xf32>
          %p = arith.mulf %a, %b : f32
          %next = arith.addf %sum, %p : f32
          scf.yield %next : f32
        }}
        memref.store %t, %y[%i] : memref<7xf32>
      }} {{{hints}, wia.independent}}""",
    )


def ordered_products(A: Any, x: Any, ends: Sequence[int]) -> Any:
    made = np.zeros(len(A), np.float32)
    for i, end in enumerate(ends):
        for k in range(end):
            made[i] += A[i, k] * x[k]
    return made


def test_jam_shares_a_loop_and_what_all_read() -> None:
    module = matrix_vector("wia.unroll_and_jam = 3 : i64")
    expand(module)
    turns, inner, rest, _ = loops_of(module)
    assert len(inner.results) == 3 and inner.parent_op() is turns
    reads = [line for line in print_ir(turns).splitlines() if "memref.load" in line]
    assert sum("memref<7x9xf32>" in line for line in reads) == 3
    assert sum("memref<9xf32>" in line and "7x9" not in line for line in reads) == 1
    assert len(list(rest.body.block.ops)) == 3  # the seventh row
    A, x = np.random.default_rng(0).standard_normal((8, 9)).astype(np.float32), None
    A, x = A[:7], A[7]
    got = run(module, [A, x], np.zeros(7, np.float32))[0]
    np.testing.assert_array_equal(got, ordered_products(A, x, [9] * 7))


def test_jam_leaves_loops_whose_bounds_differ() -> None:
    module = matrix_vector("wia.unroll_and_jam = 2 : i64", end="%i")
    expand(module)
    turns, *_ = loops_of(module)
    assert [type(op) for op in turns.body.block.ops].count(scf.ForOp) == 2
    A = np.random.default_rng(0).standard_normal((8, 9)).astype(np.float32)
    got = run(module, [A[:7], A[7]], np.zeros(7, np.float32))[0]
    np.testing.assert_array_equal(got, ordered_products(A[:7], A[7], range(7)))


def test_pipeline_has_prologue_steady_state_and_epilogue() -> None:
    module = vector_add(100, PIPELINE)
    expand(module)
    text = print_ir(module)
    before, _, rest = text.partition("scf.for")
    steady, _, after = rest.partition('{wia.stage = "steady state"')
    assert before.count('{wia.stage = "prologue"}') == before.count("memref.load") == 2
    assert "%c0 to %c99 step %c1 iter_args(" in steady
    assert steady.index("memref.load") < steady.index("arith.addf") < steady.index("memref.store")
    assert "memref.load" not in after and after.count('{wia.stage = "epilogue"}') == 2


@pytest.mark.parametrize(("stages", "count"), [(2, 1), (3, 2), (4, 4), (5, 9)])
def test_fewer_iterations_than_stages(stages: int, count: int) -> None:
    module = vector_add(count, f"wia.pipeline = {stages} : i64")
    expand(module)
    a, b = np.arange(2 * count, dtype=np.float32).reshape(2, count)
    np.testing.assert_array_equal(run(module, [a, b], a)[0], a + b)


def in_place(distance: int, hints: str) -> ModuleOp:
    """``d[i] = d[i] + d[i - distance]``: iterations follow from each other unless it is 0."""
    return module_of(
        "%e: memref<20xf32>, %d: memref<20xf32>",
        f"""
      %from = arith.constant {distance} : index
      %n = arith.constant 20 : index
      scf.for %i = %from to %n step %c1 {{
        %back = arith.subi %i, %from : index
        %x = memref.load %d[%i] : memref<20xf32>
        %y = memref.load %d[%back] : memref<20xf32>
        %z = arith.addf %x, %y : f32
        memref.store %z, %d[%i] : memref<20xf32>
      }} {{{hints}}}""",
    )


def test_loads_of_what_iterations_write_stay_where_they_are() -> None:
    module = in_place(1, PIPELINE)
    (decision,) = expand(module)
    assert not decision.taken and "it writes to what it loads (d)" in decision.reason
    start = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(run(module, [start], start)[0], np.cumsum(start))


def test_independent_iterations_may_load_what_others_write() -> None:
    module = in_place(0, f"{PIPELINE}, wia.independent")
    assert expand(module)[0].taken
    start = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(run(module, [start], start)[0], 2 * start)


def test_a_view_is_the_array_that_it_shows() -> None:
    """A store through a view of ``d`` is one to ``d``: what loads from it does not run ahead."""
    text = print_ir(in_place(1, PIPELINE)).replace(
        "memref.store %z, %d[%i] : memref<20xf32>",
        "memref.store %z, %view[%c0, %i] : memref<1x20xf32>",
    )
    view = "memref.reinterpret_cast %d to offset: [0], sizes: [1, 20], strides: [20, 1]"
    module = parse_ir(
        text.replace("%n = ", f"%view = {view} : memref<20xf32> to memref<1x20xf32>\n%n = ", 1)
    )
    (decision,) = expand(module)
    assert not decision.taken and "writes to what it loads" in decision.reason


def test_a_filled_buffer_has_a_copy_for_each_stage() -> None:
    module = module_of(
        "%a: memref<6x8xf32>, %s: memref<6xf32>",
        """
      %n = arith.constant 6 : index
      %m = arith.constant 8 : index
      %start = arith.constant 0.0 : f32
      scf.for %i = %c0 to %n step %c1 {
        %near = memref.alloc() : memref<8xf32, "packed">
        scf.for %j = %c0 to %m step %c1 {
          %x = memref.load %a[%i, %j] : memref<6x8xf32>
          memref.store %x, %near[%j] : memref<8xf32, "packed">
        }
        %t = scf.for %j = %c0 to %m step %c1 iter_args(%sum = %start) -> (f32) {
          %x = memref.load %near[%j] : memref<8xf32, "packed">
          %next = arith.addf %sum, %x : f32
          scf.yield %next : f32
        }
        memref.store %t, %s[%i] : memref<6xf32>
      } {wia.pipeline = 3 : i64}""",
    )
    assert expand(module)[0].taken
    assert '%near = memref.alloc() : memref<3x8xf32, "packed">' in lines_of(module)
    values = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    wanted = [np.add.accumulate(row)[-1] for row in values]
    np.testing.assert_array_equal(run(module, [values], np.zeros(6, np.float32))[0], wanted)


def prefetched(hints: str, prefetch: Prefetch, count: int = 100) -> ModuleOp:
    module = vector_add(count, hints)
    (loop,) = loops_of(module)
    found = hints_of(loop)
    note_hints(loop, LoopHints(unroll=found.unroll, prefetch=(prefetch,)))
    expand(module)
    return module


def test_a_prefetch_stands_before_the_iterations_of_its_line() -> None:
    module = prefetched("", Prefetch("a", 0, 32))
    lines, inside, rest = loops_of(module)
    text = lines_of(module)
    assert "scf.for %i = %c0 to %c96 step %c16 {" in text
    (fetch,) = (line for line in text if line.startswith("memref.prefetch"))
    assert fetch == "memref.prefetch %a[%0], read, locality<3>, data : memref<100xf32>"
    assert "%0 = arith.addi %i, %c32 : index" in text
    assert inside.parent_op() is lines and inside.lb is lines.body.block.args[0]
    assert rest.parent_op() is not lines


def test_a_pipeline_keeps_a_prefetch_in_each_turn() -> None:
    module = vector_add(100, PIPELINE)
    (loop,) = loops_of(module)
    note_hints(loop, LoopHints(pipeline=2, prefetch=(Prefetch("a", 0, 32),)))
    assert all(each.taken for each in expand(module))
    assert len(loops_of(module)) == 1
    assert print_ir(module).count("memref.prefetch") == 2  # prologue and steady state


def test_sums_are_carried_through_the_loop_of_a_line() -> None:
    module = fold(100, "")
    (loop,) = loops_of(module)
    note_hints(loop, LoopHints(prefetch=(Prefetch("a", 0, 64),)))
    assert expand(module)[0].taken and len(loops_of(module)) == 3
    values = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    (got,) = run(module, [values, np.float32(0)], np.float32(0))
    assert got == np.add.accumulate(values)[-1]


def test_a_line_is_fetched_once() -> None:
    text = lines_of(prefetched("wia.unroll = 16 : i64", Prefetch("a", 0, 32, 2)))
    fetches = [line for line in text if line.startswith("memref.prefetch")]
    assert len(fetches) == 1 and "locality<2>" in fetches[0]
    text = lines_of(prefetched("wia.unroll = 40 : i64", Prefetch("a", 0, 32)))
    assert sum(line.startswith("memref.prefetch") for line in text) == 3


def test_what_is_only_written_is_fetched_to_be_written() -> None:
    module = prefetched("", Prefetch("c", 2, 8))
    assert "memref.prefetch %c[%0], write, locality<3>" in print_ir(module)


def test_prefetches_are_instructions_and_change_nothing() -> None:
    module = prefetched("", Prefetch("a", 0, 1000))  # far behind the end of the array
    host = this_host()
    text = emit_llvm(module, x86_options(host.triple)).text
    request = CodeRequest(text, host.triple, host.name, host.features, outputs=("assembly",))
    assert "prefetcht0" in shared_worker().generate(request).assembly
    a, b = np.arange(200, dtype=np.float32).reshape(2, 100)
    np.testing.assert_array_equal(run(module, [a, b], a)[0], a + b)


def test_an_array_that_the_loop_does_not_walk_is_refused() -> None:
    module = matrix_vector()
    outer = loops_of(module)[0]
    note_hints(outer, LoopHints(prefetch=(Prefetch("x", 1, 4),)))
    (decision,) = expand(module)
    assert not decision.taken and "place in x does not depend on it" in decision.reason
