"""ptxas and nvdisasm: found, run, read, and told about when they are absent or fail."""

import shlex
import subprocess
from pathlib import Path

import pytest
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu import tools
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.launch import Launch
from wia_compiler.backends.gpu.resources import parse_usage, resources_of
from wia_compiler.backends.gpu.sass import parse_sass
from wia_compiler.base.errors import TargetError

PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	add.s32 %r2, %r1, %r1;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 54 registers, used 1 barriers, 16 bytes cumulative stack size, 8192 bytes smem
ptxas info    : Compile time = 11.900 ms
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 376 bytes cmem[0]
ptxas warning : (C7510) Potential Performance Loss: something is serialized
ptxas info    : (C7511) Potential Performance Loss: something else is
"""


def test_usage_of_each_entry():
    usage, warnings = parse_usage(LOG)
    first, second = usage["first"], usage["second"]
    assert (first.registers, first.shared_bytes, first.barriers) == (54, 8192, 1)
    assert (first.stack_bytes, first.spill_store_bytes, first.spill_load_bytes) == (16, 8, 12)
    assert (second.registers, second.shared_bytes, second.spill_load_bytes) == (10, 0, 0)
    assert [warning[:7] for warning in warnings] == ["(C7510)", "(C7511)"]


def test_shared_memory_is_told_by_its_kind():
    """What the code declares, and what a launch asks for beside it."""
    launches = [Launch("first", 4, 128, (0,), 1024), Launch("second", 2, 32, (0,))]
    shown = resources_of(ARCHITECTURES["sm_80"], launches, LOG)
    rows = shown["entries"]
    kinds = ("shared_bytes", "static_shared_bytes", "dynamic_shared_bytes")
    assert [rows["first"][kind] for kind in kinds] == [9216, 8192, 1024]
    assert [rows["second"][kind] for kind in kinds] == [0, 0, 0]
    assert [shown[kind] for kind in kinds] == [9216, 8192, 1024]
    assert len(shown["warnings"]) == 2


@needs_ptxas
def test_assemble_and_disassemble():
    made = tools.assemble(PTX, "sm_80")
    assert made.cubin[:4] == b"\x7fELF"
    assert "twice" in parse_usage(made.log)[0]
    sass = parse_sass(tools.disassemble(made.cubin))
    lines = sass.text.splitlines()
    assert lines[0] == "twice:"
    assert lines[-1].endswith("EXIT;") and "NOP" not in sass.text
    ptx = PTX.splitlines()
    (load,) = [n for n, line in enumerate(lines, 1) if "LDG" in line]
    (store,) = [n for n, line in enumerate(lines, 1) if "STG" in line]
    assert "ld.global" in ptx[sass.ptx_lines[load] - 1]
    assert "st.global" in ptx[sass.ptx_lines[store] - 1]


@needs_ptxas
def test_a_refused_text_says_how_to_repeat_it():
    with pytest.raises(TargetError) as caught:
        tools.assemble(PTX.replace("add.s32", "frobnicate.s32"), "sm_80")
    message = str(caught.value)
    assert "frobnicate" in message and "exit status" in message
    command = message.rpartition("reproduce: ")[2]
    again = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert again.returncode != 0 and "frobnicate" in again.stderr


@needs_ptxas
def test_an_older_architecture_than_the_text_is_refused():
    with pytest.raises(TargetError, match="sm_75"):
        tools.assemble(PTX, "sm_75")


def test_a_crash_is_told_apart(tmp_path, monkeypatch):
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\necho what happened >&2\nkill -SEGV $$\n")
    fake.chmod(0o755)
    monkeypatch.setattr(tools, "find_tool", lambda name: fake)
    with pytest.raises(TargetError, match="ptxas failed with a crash:\nwhat happened") as caught:
        tools.assemble(PTX, "sm_80")
    command = shlex.split(str(caught.value).rpartition("reproduce: ")[2])
    kept = [Path(part) for part in command if part.endswith(".ptx")]
    assert [path.read_text() for path in kept] == [PTX], "the text stays for the command"


def test_a_tool_that_hangs_is_stopped(tmp_path, monkeypatch):
    fake = tmp_path / "nvdisasm"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(tools, "find_tool", lambda name: fake)
    with pytest.raises(TargetError, match=r"stopped after 0\.1 s; reproduce: .*nvdisasm -c -gp"):
        tools.disassemble(b"", timeout_s=0.1)


def test_an_absent_tool_names_the_command_that_brings_it(monkeypatch):
    monkeypatch.setattr(tools, "find_tool", lambda name: None)
    assert tools.tool_stamp("ptxas") == "ptxas: none"
    with pytest.raises(TargetError, match="pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm"):
        tools.assemble(PTX, "sm_80")


def test_a_toolkit_is_looked_for_last(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "some_tool_of_cuda").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert tools.find_tool("some_tool_of_cuda") == tmp_path / "bin" / "some_tool_of_cuda"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "elsewhere"))
    assert tools.find_tool("some_tool_of_cuda") is None


def test_padding_after_the_last_instruction_goes():
    text = (
        "//--------------------- .text.k ----------\n.text.k:\n"
        '\t//## File ".nv_debug_ptx_txt", line 7\n'
        "        /*0000*/                   EXIT ;\n.L_x_0:\n"
        "        /*0010*/                   BRA `(.L_x_0);\n"
        "        /*0020*/                   NOP;\n.L_x_1:\n"
    )
    sass = parse_sass(text)
    assert sass.text.splitlines()[-1].endswith("EXIT;")
    assert 7 in sass.ptx_lines.values()
