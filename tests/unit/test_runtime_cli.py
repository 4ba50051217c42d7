"""The command line: what it prints, writes and says when something is wrong."""

import io
import json

import pytest
from unit.gpu_tools import needs_ptxas
from wia_compiler.runtime import cli
from wia_compiler.runtime.session import default_session

TEXT = """\
kernel double(input A: tensor, output B: tensor) {
  B = A + A;
}
"""
TWO = TEXT + "kernel scale(input A: tensor, alpha: f32, output B: tensor) { B = A * alpha; }\n"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))
    default_session().forget()


@pytest.fixture
def file(tmp_path) -> str:
    path = tmp_path / "double.wia"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def wia(capsys):
    """Run a command: its exit status, output and messages."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(arguments)
        except SystemExit as exit_:
            status = exit_.code
        return (status, *capsys.readouterr())

    return run


ARGS = ("--args", "A=f32[3,4]")


def test_help_of_every_command_has_examples(wia):
    status, said, _ = wia("--help")
    assert status == 0 and all(command in said for command in cli.COMMANDS)
    for command in cli.COMMANDS:
        status, said, _ = wia(command, "--help")
        assert status == 0 and "examples:" in said and f"  wia {command}" in said, command


def test_commands_are_the_files_of_the_folder():
    from pathlib import Path

    folder = Path(cli.__file__).parent / "cli_commands"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "common"}
    assert files == set(cli.COMMANDS)


def test_usage_errors_are_2(wia):
    assert wia()[0] == 2
    assert wia("nonsense")[0] == 2
    assert wia("build")[0] == 2
    assert wia("cache", "explain")[0] == 2
    assert wia("cache", "show", "abcd")[0] == 2
    assert wia("stages", "x.wia", "--stage", "a", "--decisions")[0] == 2


def test_build_shows_stages_and_writes_one_file_for_each(wia, file, tmp_path):
    folder = tmp_path / "out"
    status, said, complaints = wia("build", file, *ARGS, "-o", str(folder))
    assert (status, complaints) == (0, "")
    stages = [line.split()[0] for line in said.splitlines()[2:] if line.split()[1:2]]
    written = {path.name for path in folder.iterdir()}
    assert {"source.wia", "import.mlir", "fusion.mlir", "loops.mlir", "trace.json"} <= written
    assert {"llvm.ll", "x86.s", "kernel.o"} <= written
    for name in ("source", "import", "fusion", "loops", "llvm", "x86"):
        assert name in stages
    assert "ret" in (folder / "x86.s").read_text()
    assert json.loads((folder / "trace.json").read_text())["kernel"] == "double"


def test_build_as_json(wia, file):
    status, said, _ = wia("build", file, *ARGS, "--json")
    data = json.loads(said)
    assert status == 0 and data["kernel"] == "double" and data["target"] == "cpu"
    assert data["inputs"] == [{"name": "A", "shape": [3, 4], "dtype": "f32", "strides": None}]
    assert data["flops"] == 12 and data["size_bytes"] == 96
    assert data["cache"]["hit"] == "miss" and len(data["cache"]["digest"]) == 64
    assert [stage["name"] for stage in data["stages"]][:2] == ["source", "import"]


def test_build_emits_one_text(wia, file):
    status, said, _ = wia("build", file, *ARGS, "--emit", "llvm")
    assert status == 0 and "define" in said
    status, said, complaints = wia("build", file, *ARGS, "--emit", "lvm")
    assert (status, said) == (1, "")
    assert "did you mean 'llvm'" in complaints


def test_build_for_another_target(wia, file):
    status, said, _ = wia("build", file, *ARGS, "--target", "gpu", "--emit", "ptx")
    assert status == 0 and ".visible .entry" in said
    status, _, complaints = wia("build", file, *ARGS, "--target", "gpu:sm_91")
    assert status == 1 and "did you mean 'gpu:sm_90'" in complaints


def test_run_compares_with_the_reference(wia, file):
    status, said, complaints = wia("run", file, *ARGS, "--seed", "3", "--repeat", "2")
    assert (status, complaints) == (0, "")
    assert "time " in said and "f32[3,4]" in said and "agrees" in said
    status, said, _ = wia("run", file, *ARGS, "--json")
    data = json.loads(said)
    assert status == 0 and data["correct"] is True and data["time_ns"] > 0
    assert data["results"][0]["name"] == "B" and data["results"][0]["agrees"] is True


def test_run_is_1_where_the_result_is_wrong(wia, file, monkeypatch):
    from wia_compiler.runtime import reference_call

    monkeypatch.setattr(reference_call, "reference", lambda kernel, A: A * 3)
    status, said, _ = wia("run", file, *ARGS)
    assert status == 1 and "DISAGREES" in said


def test_run_takes_scalars_and_kernels_by_name(wia, tmp_path):
    path = tmp_path / "two.wia"
    path.write_text(TWO)
    status, said, _ = wia("run", str(path), "-k", "scale", "-a", "A=f32[5], alpha=2.5", "--json")
    assert status == 0 and json.loads(said)["kernel"] == "scale"
    status, _, complaints = wia("run", str(path), *ARGS)
    assert status == 1 and "double, scale" in complaints and "--kernel" in complaints
    status, _, complaints = wia("run", str(path), "-k", "sclae", *ARGS)
    assert status == 1 and "no kernel 'sclae'" in complaints


def test_stages_text_difference_and_decisions(wia, file):
    status, said, _ = wia("stages", file, *ARGS)
    assert status == 0 and said.splitlines()[0].split()[:2] == ["stage", "level"]
    status, said, _ = wia("stages", file, *ARGS, "--stage", "source")
    assert status == 0 and "B = A + A;" in said
    status, said, _ = wia("stages", file, *ARGS, "--diff", "import", "infer-shapes")
    assert status == 0 and said.startswith("--- import") and "tensor<3x4xf32>" in said
    status, said, _ = wia("stages", file, *ARGS, "--diff", "import", "import")
    assert status == 0 and said == "import and import are equal\n"
    status, said, _ = wia("stages", file, *ARGS, "--decisions", "--json")
    assert status == 0 and isinstance(json.loads(said), list)
    status, _, complaints = wia("stages", file, *ARGS, "--stage", "fusoin")
    assert status == 1 and "did you mean 'fusion'" in complaints


def test_profile_says_where_the_kernel_stands(wia, file):
    status, said, complaints = wia("profile", file, *ARGS)
    assert (status, complaints) == (0, "")
    assert "double on cpu" in said and "measured" in said
    status, said, _ = wia("profile", file, *ARGS, "--json")
    data = json.loads(said)
    assert status == 0 and data["flops"] == 12 and data["source"] == "measured"


def test_profile_of_a_gpu_that_is_not_here_is_a_models(wia, file):
    status, said, _ = wia("profile", file, *ARGS, "--target", "gpu", "--device", "H200")
    assert status == 0 and "estimate: H200: " in said and "no time, simulated" in said
    data = json.loads(wia("profile", file, *ARGS, "--target", "gpu", "--json")[1])
    estimate = data["estimate"]
    assert data["time"] is None and estimate["source"] == "model"
    assert estimate["device"] == "H100" and estimate["error_band"][0] < estimate["time"]
    status, _, complaints = wia("profile", file, *ARGS, "--device", "H200")
    assert status == 1 and "measured here: leave it out" in complaints


def test_profile_shows_counts_by_line(wia, file):
    gpu = (*ARGS, "--target", "gpu:sm_80")
    for which in ("ptx", "source", "sass"):
        status, said, _ = wia("profile", file, *gpu, "--lines", which, "--json")
        data = json.loads(said)
        assert status == 0 and data["of"] == which and data["rows"]
        status, said, _ = wia("profile", file, *gpu, "--lines", which)
        assert status == 0 and "(simulated)" in said
    status, _, complaints = wia("profile", file, *ARGS, "--lines", "ptx")
    assert status == 1 and "nothing counts by line here" in complaints
    status, _, _ = wia("profile", file, *gpu, "--lines", "ptx", "--compare")
    assert status == 2, "one view at a time"


def test_profile_compares_with_another_schedule(wia, file, tmp_path):
    gpu = (*ARGS, "--target", "gpu:sm_80")
    schedule = tmp_path / "narrow.schedule"
    schedule.write_text("tile i 64")
    status, said, _ = wia("profile", file, *gpu, "--compare", str(schedule), "--json")
    rows = {row["name"]: row for row in json.loads(said)["rows"]}
    assert status == 0 and rows["threads_per_block"]["right"] == 64
    assert rows["seconds"]["left_source"] == "model"
    status, said, _ = wia("profile", file, *gpu, "--compare", "default")
    assert status == 0 and "ratio" in said
    status, said, _ = wia("profile", file, *gpu, "--compare")
    assert status == 0 and "not measured: no GPU" in said


@needs_ptxas
def test_build_tells_the_sass_as_a_table(wia, file):
    data = json.loads(wia("build", file, *ARGS, "--target", "gpu:sm_80", "--json")[1])
    assert {row["opcode"] for row in data["sass"]} >= {"EXIT"}
    assert len(data["sass"]) == data["resources"]["instructions"]
    assert json.loads(wia("build", file, *ARGS, "--json")[1])["sass"] == []


def test_cache_shows_explains_and_clears(wia, file):
    assert "0 kernels" in wia("cache")[1]
    digest = json.loads(wia("build", file, *ARGS, "--json")[1])["cache"]["digest"]
    status, said, _ = wia("cache", "show", "--json")
    assert [entry["digest"] for entry in json.loads(said)["entries"]] == [digest]
    status, said, _ = wia("cache", "explain", digest[:10])
    assert status == 0 and "B = A + A;" in said and digest in said
    assert json.loads(wia("cache", "explain", digest[:10], "--json")[1])["digest"] == digest
    assert wia("cache", "explain", "00000")[0] == 1
    assert "removed 1 kernel from" in wia("cache", "clear")[1]
    assert json.loads(wia("cache", "clear", "--json")[1])["removed"] == 0


def test_targets_lists_every_family(wia):
    status, said, _ = wia("targets")
    assert status == 0 and {"cpu", "gpu:sm_90"} <= {line.split()[0] for line in said.splitlines()}
    names = [row["name"] for row in json.loads(wia("targets", "--json")[1])]
    assert {"cpu", "gpu:sm_80", "gpu:sm_90", "gpu:sm_120"} <= set(names)


def test_doctor(wia):
    status, said, _ = wia("doctor")
    assert status == 0 and said.startswith("required\n") and "numpy" in said
    assert json.loads(wia("doctor", "--json")[1])["healthy"] is True


def test_standard_input(wia, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert wia("run", "-", *ARGS)[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("kernel double(\n"))
    status, said, complaints = wia("run", "-", *ARGS)
    assert (status, said) == (1, "") and "<stdin>:" in complaints


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "absent.wia"), "cannot read absent.wia: No such file"),
        (("run", "FILE"), "A is missing"),
        (("run", "FILE", "--args", "A=f3[2]"), "did you mean f32?"),
        (("run", "FILE", "--args", "A=f32[2], X=f32[2]"), "no parameter 'X'"),
        (("run", "FILE", "--args", "A=2.0"), "expected an array"),
        (("build", "FILE", "--args", "A=f32[2]", "-o", "FILE/x"), "cannot write to"),
    ],
)
def test_mistakes_are_messages_without_frames(wia, file, arguments, expected):
    status, said, complaints = wia(*(part.replace("FILE", file) for part in arguments))
    assert (status, said) == (1, "")
    assert expected in complaints and "Traceback" not in complaints


def test_errors_of_the_program_show_the_line_of_the_file(wia, tmp_path):
    path = tmp_path / "wrong.wia"
    path.write_text("kernel k(input A: tensor, output B: tensor) {\n  B = relo(A);\n}\n")
    status, _, complaints = wia("run", str(path), *ARGS)
    assert status == 1 and f"{path}:2:7" in complaints and "^^^^" in complaints
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in wia("run", str(path), *ARGS)[2]


def test_stages_prints_the_notation_of_the_chapter(wia, file):
    status, said, _ = wia("stages", file, "--chapter")
    assert status == 0 and said.startswith("func @double(%A: tensor) -> tensor {")
    status, said, _ = wia("stages", file, "--chapter", "--json")
    assert json.loads(said)["text"].startswith("func @double(")


UNFORMATTED = "kernel  f(input A:tensor,output B:tensor){ // why\n\n\n  B=A*2.0;\n}"
FORMATTED = "kernel f(input A: tensor, output B: tensor) {  // why\n    B = A * 2.0;\n}\n"


def test_fmt_rewrites_files_and_keeps_their_permissions(tmp_path, capsys):
    file, other = tmp_path / "a.wia", tmp_path / "b.wia"
    file.write_text(UNFORMATTED, "utf-8")
    file.chmod(0o640)
    other.write_text(FORMATTED, "utf-8")
    before = other.stat().st_mtime_ns
    assert cli.main(["fmt", str(file), str(other)]) == 0
    assert file.read_text("utf-8") == FORMATTED and file.stat().st_mode & 0o777 == 0o640
    assert other.stat().st_mtime_ns == before, "a file that is formatted is left alone"
    assert capsys.readouterr().out == f"formatted {file}\n"
    assert sorted(path.name for path in tmp_path.glob("*wia*")) == ["a.wia", "b.wia"]


def test_fmt_check_and_diff_write_nothing(tmp_path, capsys):
    file = tmp_path / "a.wia"
    file.write_text(UNFORMATTED, "utf-8")
    assert cli.main(["fmt", "--check", str(file)]) == 1
    assert capsys.readouterr().out == f"would change {file}\n"
    assert cli.main(["fmt", "--diff", str(file)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"--- {file}\n+++ formatted\n") and "+    B = A * 2.0;" in shown
    assert cli.main(["fmt", "--check", "--json", str(file)]) == 1
    assert json.loads(capsys.readouterr().out) == [{"file": str(file), "changed": True}]
    assert file.read_text("utf-8") == UNFORMATTED


def test_fmt_reports_syntax_errors_and_leaves_the_file(tmp_path, capsys):
    broken, fine = tmp_path / "broken.wia", tmp_path / "fine.wia"
    broken.write_text("kernel f(input A: tensor { B = A; }", "utf-8")
    fine.write_text(UNFORMATTED, "utf-8")
    assert cli.main(["fmt", str(broken), str(fine), str(tmp_path / "absent.wia")]) == 1
    captured = capsys.readouterr()
    assert "error: " in captured.err and f"{broken}:1:" in captured.err
    assert "cannot read" in captured.err
    assert broken.read_text("utf-8") == "kernel f(input A: tensor { B = A; }"
    assert fine.read_text("utf-8") == FORMATTED, "the others are formatted all the same"


def test_fmt_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(UNFORMATTED))
    assert cli.main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == FORMATTED


def test_cpp_files_are_known_by_their_names(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "add.cpp"
    file.write_text("for (int i = 0; i < N; i++) c[i] = a[i] + b[i];", "utf-8")
    arguments = ["--args", "a=f32[17], b=f32[17]", "--debug", "--verify"]
    assert cli.main(["run", str(file), *arguments]) == 0
    assert "agrees" in capsys.readouterr().out
    assert cli.main(["run", str(file), "--language", "wia", *arguments]) == 1
    assert "error: " in capsys.readouterr().err


def test_a_schedule_from_a_file_takes_the_place_of_the_texts_own(wia, tmp_path):
    text = tmp_path / "mm.wia"
    text.write_text(
        "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }\n"
        "schedule mm { tile i 8; }\n"
    )
    lines = tmp_path / "mm.schedule"
    lines.write_text("tile i 4, j 4;\nthread_tile i 2")
    arguments = ("--args", "A=f32[16,16], B=f32[16,16]")
    status, said, _ = wia("build", str(text), *arguments)
    assert status == 0 and "    tile i 8;\n}" in said
    status, said, _ = wia("build", str(text), *arguments, "--schedule", str(lines), "--json")
    assert status == 0
    assert json.loads(said)["schedule"].endswith("    tile i 4, j 4;\n    thread_tile i 2;\n}")
    status, said, _ = wia("build", str(text), *arguments, "--schedule", "default", "--json")
    assert "tile i 8" not in json.loads(said)["schedule"]
    lines.write_text("tile q 4")
    status, _, told = wia("run", str(text), *arguments, "--schedule", str(lines))
    assert status == 1 and "no axis 'q'" in told
