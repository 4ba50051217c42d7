"""The page on the PTX simulator is true: its examples run, its tables are the simulator's."""

import re
from pathlib import Path

import numpy as np
from ptx_texts import launch
from wia_compiler.simulators.ptx.decode import _MEMORY, _WARP, IDLE
from wia_compiler.simulators.ptx.values.compare import COMPARISONS
from wia_compiler.simulators.ptx.values.floats import FLOATS
from wia_compiler.simulators.ptx.values.integers import INTEGERS
from wia_compiler.simulators.ptx.values.lanewise_integers import OTHERS

PAGE = (Path(__file__).parents[2] / "docs" / "ptx_simulator.md").read_text("utf-8")


def test_its_examples_print_what_it_says(capsys):
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, {})
    said = capsys.readouterr().out.splitlines()
    assert said == re.findall(r"^print\(.*\)  # (.*)$", PAGE, re.MULTILINE) != []


def test_every_opcode_is_listed():
    listed = {
        word.partition(".")[0] for text in re.findall(r"`([^`]*)`", PAGE) for word in text.split()
    }
    known = {*COMPARISONS, *FLOATS, *INTEGERS, *_MEMORY, *_WARP, "mov", "cvta", "cvt", "wgmma"}
    known |= {re.sub("[24]$", "", name) for name in OTHERS}
    known = {name.partition(".")[0] for name in known}
    assert known - {"ldu"} <= listed
    assert not {"membar", "fence"} - set(IDLE), "fences, which it names, are known"


def test_every_counter_is_listed():
    body = """
        and.b32 %r1, %r0, 3; mov.u32 %r2, tile; st.shared.u32 [%r2], %r1; ld.shared.u32 %r3, [%r2];
        ld.global.u32 %r4, [%d0]; st.global.u32 [%d0], %r4; add.f32 %f1, %f1, %f1;
    """
    counters = launch(body, np.zeros(4), variables=".shared .align 4 .b8 tile[16];").counters
    for name in counters:
        plain = re.sub(r"_op_(st|atom|red)\b", "_op_ld", name).replace("_shared_op", "_global_op")
        stems = [name, plain, plain.replace("_global_op", "_shared_op")]
        shortened = name.startswith(("derived__", "ptx_thread", "l1tex__average", "shared_memory"))
        assert shortened or any(f"`{stem}`" in PAGE for stem in stems), name
