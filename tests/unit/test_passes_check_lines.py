"""The checker of ``CHECK`` lines: what it accepts, and that it rejects everything else."""

import pytest
from ir.check_lines import CheckFailure, check
from ir.opt import run, run_lines

OUTPUT = """\
module {
  %0 = wia.exp  %x : f32
  %1 = wia.neg %0 : f32
  %2 = wia.exp %1 : f32
  return %2
}
"""


@pytest.mark.parametrize(
    "expected",
    [
        "// CHECK: wia.exp %x : f32",
        "// CHECK: %0 = wia.exp %x\n// CHECK-NEXT: wia.neg %0",
        "// CHECK: wia.neg\n// CHECK-SAME: : f32",
        "// CHECK: wia.neg\n// CHECK-NOT: wia.neg\n// CHECK: return",
        "// CHECK: [[V:%\\d]] = wia.exp\n// CHECK: wia.neg [[V]] :",
        "// CHECK: wia.{{exp|neg}}\n// CHECK-NEXT: wia.neg",
        "// CHECK-LABEL: module\n// CHECK: [[W:%\\w]] = wia.neg",
        "// CHECK: %2 = wia.[[NAME:\\w+]] %1\n// CHECK-NOT: [[NAME]]",
        "// CHECK: %[[N:\\d]] = wia.neg %0 : f{{3}}2",
    ],
)
def test_what_is_there_is_found(expected: str) -> None:
    assert check(OUTPUT, expected) == expected.count("CHECK")


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ("nothing", "cannot fail"),
        ("// CHECK: wia.log", "not found"),
        ("// CHECK: wia.neg\n// CHECK: %0 = wia.exp", "not found"),
        ("// CHECK: %0\n// CHECK-NEXT: %2", "not found"),
        ("// CHECK: %0\n// CHECK-NEXT: wia.exp", "not found"),
        ("// CHECK: %0\n// CHECK-SAME: wia.neg", "not found"),
        ("// CHECK: %0\n// CHECK-NOT: wia.neg\n// CHECK: return", "stands on line 3"),
        ("// CHECK: wia.neg\n// CHECK-NOT: return", "stands on line 5"),
        ("// CHECK-NOT: wia.exp\n// CHECK: wia.neg", "stands on line 2"),
        ("// CHECK: [[V:%\\d]] = wia.neg\n// CHECK: wia.exp [[V]]0", "not found"),
        ("// CHECK: wia.neg [[V]]", "not named"),
        ("// CHECK-NXT: wia.neg", "no directive CHECK-NXT"),
        ("// CHECK-NEXT: wia.neg", "needs a CHECK before"),
        ("// CHECK:", "matches everything"),
    ],
)
def test_what_is_not_there_fails(expected: str, why: str) -> None:
    with pytest.raises(CheckFailure, match=why):
        check(OUTPUT, expected)


def test_run_lines_are_read_and_pass_names_checked() -> None:
    text = "// RUN: wia-opt --dce %s | filecheck %s\nfunc.func @k() { func.return }\n"
    assert run_lines(text) == ["wia-opt --dce %s | filecheck %s"]
    assert "func.func @k" in run(run_lines(text)[0], text)
    with pytest.raises(ModuleNotFoundError, match="no_such_pass"):
        run("wia-opt --no-such-pass", text)
    with pytest.raises(ValueError, match="RUN lines run wia-opt"):
        run("mlir-opt --dce", text)
    with pytest.raises(AssertionError, match="an error was expected"):
        run("not wia-opt --dce", text)
