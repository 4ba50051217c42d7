"""``docs/pipeline.md``: its code runs, its table lists the stages in their order."""

import re
from pathlib import Path

import numpy as np
import wia_compiler as wia

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs(capsys) -> None:
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, names)
    printed = capsys.readouterr().out
    lines = [
        line.strip() for line in re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)[0].split("\n")
    ]
    shown = [line for line in lines if line and line != "…"]
    for line in shown:
        assert line in printed, f"the page shows {line!r}, which is not printed"
    assert "x86 - the results are those of the kernel as written" in printed


def test_the_table_lists_every_stage_in_order() -> None:
    table = PAGE[: PAGE.index("## Branches")]
    listed = re.findall(
        r"`([\w-]+)`", "\n".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE))
    )
    plain = "kernel k(input a: tensor, output b: tensor) { b = tanh(a) + 1; }"
    spec = wia.spec((4,), "f32")
    cpu = [stage.name for stage in wia.compile(plain)["k"].build(spec).stages]
    gpu = [stage.name for stage in wia.compile(plain)["k"].build(spec, target="gpu:sm_90").stages]
    for found in (cpu, gpu):
        assert [name for name in listed if name in found] == found
    assert set(listed) <= {*cpu, *gpu, "patterns", "expand", "tpu", "sass"}


def test_what_the_page_says_of_a_swap() -> None:
    text = """kernel k(input a: tensor, input b: tensor, output x: tensor, output y: tensor) {
        x = a; y = b;
        for i in 0..3 { t = x; x = y; y = t; }
    }"""
    a, b = np.arange(3.0), -np.arange(3.0)
    x, y = wia.compile(text)["k"](a, b)
    np.testing.assert_array_equal(x, b)
    np.testing.assert_array_equal(y, a)
