"""Schedules from text to code: how they are given, what they change, and that results stay."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray
from wia_compiler.base.schedule import Entry, Schedule, directive
from wia_compiler.frontend.vocabulary import DIRECTIVES
from wia_compiler.passes.scheduling import directives
from wia_compiler.passes.scheduling.register import directive_names

Array = NDArray[Any]

MATMUL = """
kernel mm(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, input bias: tensor<N, f32>,
          output C: tensor) {
    C = relu(A @ B + bias);
}
"""
SOFTMAX = "kernel sm(input A: tensor, output C: tensor) { C = softmax(A, dim=1); }"
CONV = """
kernel conv(input x: tensor, input w: tensor, output C: tensor) {
    C = relu(conv2d(x, w, padding=1));
}
"""
ROWS = "kernel rows(input A: tensor, output C: tensor) { C = softmax(A, dim=1); }"
COLUMNS = "kernel cs(input A: tensor, output C: tensor) { C = reduce_sum(A, axis=0); }"
TWO = (
    "kernel two(input A: tensor, input B: tensor, output C: tensor) { x = A @ B; C = relu(x @ B); }"
)

SCHEDULES = (
    "tile i 16, j 24, k 7",
    "tile j 24; reorder j.0, i",
    "tile i 32, j 32, k 16; tile i 8, j 16, k 4; thread_tile i 4, j 8",
    "thread_tile j 16, i 4, k 4; reorder j, i; pack B at j; parallel j; stream C",
    "tile k 8, j 32, i 16; thread_tile i 4, j 16; pack B at k.0; pack A at i.0",
    "tile i 8, j 8; cache A at i.0, B at j.0; thread_tile i 2, j 8",
    "tile i 4 @block; tile j 4 @warp; unroll_and_jam i 2; unroll k 4; accumulators k 2",
    "",
)


def sample(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("sizes", [(17, 127, 33), (3, 1, 40), (0, 5, 7)])
def test_a_schedule_changes_no_result(schedule: str, sizes: tuple[int, int, int]) -> None:
    rows, depth, columns = sizes
    a, b, bias = sample(rows, depth), sample(depth, columns), sample(columns)
    if not rows:
        schedule = "default"
    build = wia.compile(MATMUL).mm.build(a, b, bias, schedule=schedule)
    expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
    np.testing.assert_allclose(build(a, b, bias), expected, atol=1e-4)
    np.testing.assert_allclose(build(a, b, bias), expected, atol=1e-4)  # over what C holds now


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (MATMUL, [(64, 48), (48, 80), (80,)]),
        (MATMUL, [(1, 48), (48, 80), (80,)]),
        (SOFTMAX, [(6, 100)]),
        (CONV, [(1, 8, 12, 12), (16, 8, 3, 3)]),
        (COLUMNS, [(30, 40)]),
        (TWO, [(8, 8), (8, 8)]),
        ("kernel e(input A: tensor, output C: tensor) { C = A * 2.0; }", [(50,)]),
        ("kernel s(input A: tensor, output C: tensor) { C = cumsum(A, dim=0); }", [(9, 40)]),
        ("kernel same(input A: tensor, output C: tensor) { C = A @ A; }", [(40, 40)]),
    ],
)
def test_what_a_target_chose_gives_the_same_code_when_it_is_pasted(
    text: str, shapes: list[tuple[int, ...]]
) -> None:
    (kernel,) = wia.compile(text).values()
    specs = [wia.spec(shape, "f32") for shape in shapes]
    chosen = kernel.build(*specs)
    (pasted,) = wia.compile(f"{text}\n{chosen.schedule}").values()
    again = pasted.build(*specs)
    assert again.stage("schedule").text == chosen.stage("schedule").text
    assert again.assembly("x86") == chosen.assembly("x86")


def test_a_block_of_the_text_a_text_and_an_object_say_the_same() -> None:
    lines = "tile i 16, j 16; thread_tile i 4, j 8"
    block = f"schedule mm {{ {lines} }}"
    specs = [wia.spec(shape, "f32") for shape in ((32, 8), (8, 32), (32,))]
    made = Schedule(
        "mm", (directive("tile", {"i": 16, "j": 16}), directive("thread_tile", {"i": 4, "j": 8}))
    )
    plain = wia.compile(MATMUL)
    builds = [
        wia.compile(MATMUL + block).mm.build(*specs),
        wia.compile(MATMUL, schedule=lines).mm.build(*specs),
        wia.compile(MATMUL, schedule=block).mm.build(*specs),
        plain.mm.to(schedule=block).build(*specs),
        plain.mm.build(*specs, schedule=made),
        plain.mm.build(*specs, schedule=[made]),
    ]
    expected = "schedule mm {\n    tile i 16, j 16;\n    thread_tile i 4, j 8;\n}"
    assert {build.schedule.split("\n", 1)[1] for build in builds} == {expected}
    assert len({build.stage("schedule").text for build in builds}) == 1
    default = wia.compile(MATMUL + block).mm.build(*specs, schedule="default")
    assert default.stage("schedule").text == plain.mm.build(*specs).stage("schedule").text
    assert default.stage("schedule").text != builds[0].stage("schedule").text


def test_a_schedule_is_part_of_the_key_and_stays_with_a_kernel() -> None:
    specs = [wia.spec(shape, "f32") for shape in ((32, 8), (8, 32), (32,))]
    kernel = wia.compile(MATMUL).mm
    tiled = kernel.to(schedule="tile i 16")
    keys = {
        kernel.build(*specs).cache.digest,
        tiled.build(*specs).cache.digest,
        kernel.build(*specs, schedule="tile i 8").cache.digest,
        kernel.build(*specs, schedule="").cache.digest,
    }
    assert len(keys) == 4
    assert tiled.to(debug=True).options.schedules == tiled.options.schedules
    assert tiled.build(*specs).to("cpu").schedule == tiled.build(*specs).schedule
    assert "flag       schedule mm { tile i 16; }" in tiled.build(*specs).cache.key.explain()


def test_blocks_of_several_nests_name_them() -> None:
    specs = [wia.spec((16, 16), "f32")] * 2
    text = TWO + "schedule two.two_matmul { tile i 4 }"
    build = wia.compile(text).two.build(*specs)
    nests = [d for d in build.stage("schedule").decisions if d.kind == "schedule"]
    told = {d.candidate: d.numbers["schedule"] for d in nests}
    assert told["two_matmul"] == "tile i 4"
    assert told["fused_matmul_relu"] != "tile i 4"
    a, b = sample(16, 16), sample(16, 16)
    np.testing.assert_allclose(build(a, b), np.maximum(a @ b @ b, 0), atol=1e-4)


def test_levels_of_a_schedule_are_kept_on_its_loops() -> None:
    build = wia.compile(MATMUL).mm.build(
        *(wia.spec(shape, "f32") for shape in ((32, 8), (8, 32), (32,))),
        schedule="tile i 16 @block; parallel i",
    )
    text = build.stage("schedule").text
    assert 'axis "i.0" @thread attributes {wia.level = "block"}' in text
    assert build.schedule.endswith("    tile i 16 @block;\n    parallel i;\n}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (4, "schedule=: got a int, expected text or wia.Schedule"),
        ([], "schedule=: got a list, expected text or wia.Schedule"),
        ("schedule other { tile i 8 }", "schedule=: it is for other, this kernel is mm"),
    ],
)
def test_what_is_no_schedule_is_refused(given: Any, message: str) -> None:
    with pytest.raises(wia.ArgumentError) as caught:
        wia.compile(MATMUL).mm.to(schedule=given)
    assert message in str(caught.value)


def test_faults_of_lines_that_are_given_stand_at_their_place() -> None:
    kernel = wia.compile(MATMUL).mm
    with pytest.raises(wia.CompileError) as caught:
        kernel.to(schedule="tile i 8;\ntiles j 8")
    assert str(caught.value).split("\n") == [
        "error: no directive 'tiles'",
        "  --> <schedule>:2:1",
        "   2 | tiles j 8",
        "     | ^^^^^",
        "  help: did you mean 'tile'?",
    ]
    with pytest.raises(wia.ArgumentError, match=r"directives for which of a, b\?"):
        wia.compile(
            "kernel a(input A: tensor) { return A; } kernel b(input A: tensor) { return A; }",
            schedule="tile i 8",
        )


def test_schedules_print_as_the_language_reads_them() -> None:
    made = Schedule(
        "mm",
        (
            directive("tile", {"i": 128, "k": 32}, level="block"),
            directive("reorder", "j", "i"),
            directive("pack", Entry("B", at="k.0"), "A"),
            directive("accumulators", Entry(None, 4)),
            directive("keep"),
        ),
        "fused_matmul",
    )
    assert str(made).split("\n") == [
        "schedule mm.fused_matmul {",
        "    tile i 128, k 32 @block;",
        "    reorder j, i;",
        "    pack B at k.0, A;",
        "    accumulators 4;",
        "    keep;",
        "}",
    ]
    read = wia.compile(f"{MATMUL}\n{made}").mm.options.schedules
    assert read == (made,)
    assert str(Schedule("mm")) == "schedule mm {}"


def test_the_words_of_the_language_are_the_files_of_the_register() -> None:
    assert tuple(sorted(DIRECTIVES)) == directive_names()
    for name in directive_names():
        module = importlib.import_module(f"{directives.__name__}.{name}")
        assert module.SYNTAX.split()[0] == name
        assert "→" in module.apply.__doc__ or name == "use_tensor_cores"


@pytest.mark.parametrize(
    ("text", "schedule", "widths"),
    [
        (ROWS, "vectorize j 8", {8}),
        (ROWS, "vectorize i 4", {4}),
        (ROWS, "thread_tile j 8; vectorize j 4", {4}),
        (COLUMNS, "vectorize j 32", {32}),
        (MATMUL, "thread_tile i 4, j 16; vectorize j 8", {8}),
    ],
)
def test_vectors_have_the_lanes_that_a_schedule_says(
    text: str, schedule: str, widths: set[int]
) -> None:
    (kernel,) = wia.compile(text).values()
    shapes = ((20, 33), (33, 40), (40,))[: len(kernel.signature.passed)]
    arrays = [sample(*shape) for shape in shapes]
    build = kernel.build(*arrays, schedule=schedule)
    code = build.stage("lower").text
    assert {int(each) for each in re.findall(r"vector<(\d+)xf32>", code)} == widths
    expected = wia.reference(kernel, *arrays)
    np.testing.assert_allclose(build(*arrays), expected, atol=1e-4)


@pytest.mark.parametrize(
    "lines",
    ["tile s 1, r 2, x 5", "tile c 2, y 4; tile s 1, c 1; thread_tile f 4, x 8", "cache x; pack w"],
)
def test_windows_are_folded_in_blocks_of_several_axes(lines: str) -> None:
    x, w = sample(1, 3, 12, 9), sample(8, 3, 3, 3)
    kernel = wia.compile(CONV).conv
    build = kernel.build(x, w, schedule=lines, verify=True)
    np.testing.assert_allclose(build(x, w), wia.reference(kernel, x, w), atol=1e-4)


def test_lanes_that_cannot_be_are_told() -> None:
    text = "kernel k(input A: tensor, input b: tensor, output C: tensor) { C = A % b; }"
    build = wia.compile(text).k.build(*[wia.spec((40,), "f32")] * 2, schedule="vectorize i 8")
    (warning,) = [each for each in build.trace.decisions if each.kind == "warning"]
    assert warning.reason.startswith("vectorize i 8: its points are computed one by one")
    assert warning.reason in build.schedule


def test_stores_that_cannot_leave_the_caches_out_are_told() -> None:
    specs = [wia.spec(shape, "f32") for shape in ((32, 8), (8, 32), (32,))]
    build = wia.compile(MATMUL).mm.build(*specs, schedule="thread_tile i 4, j 16; stream C")
    (warning,) = [each for each in build.trace.decisions if each.kind == "warning"]
    assert warning.reason.startswith("stream C: what it writes goes through the caches")
