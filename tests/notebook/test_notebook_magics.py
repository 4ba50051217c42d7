"""The magics in a shell of this process: options, names, errors, results."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from wia_compiler.base.errors import ArgumentError, CompileError, TargetError
from wia_compiler.runtime.kernel import Kernel
from wia_notebook.cell import run_expression
from wia_notebook.explorer import Explorer
from wia_notebook.option_text import split_line
from wia_notebook.subject import Subject
from wia_notebook.views import units

ROOT = Path(__file__).parents[2]
SCALE = "kernel scale(input A: tensor, output B: tensor) {\n  B = A * 2.0;\n}\n"
PRODUCT = """
kernel mm(input A: tensor, input B: tensor, output C: tensor) {
  C = matmul(A, B);
}
"""
PRODUCT_OF_TWO = """kernel mm2(input A: tensor, input B: tensor, output C: tensor) {
  x = A @ B;
  C = relu(x);
}
"""
FIXED = "kernel fixed(input A: tensor<3x17xf32>, output B: tensor) { B = relu(A) + 1.0; }\n"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "wia_notebook")
    yield shell
    shell.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(shell, cell, *, quiet=True):
    with capture_output() as out:
        done = shell.run_cell(cell, store_history=True)
    return done, out.stdout + out.stderr


def value(shell, cell):
    done, text = run(shell, cell)
    assert done.success, text
    return done.result


def test_loading_imports_nothing_heavy_and_is_quick():
    code = (
        "import sys, time\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "before = set(sys.modules)\n"
        "start = time.perf_counter()\n"
        "shell.run_line_magic('load_ext', 'wia_notebook')\n"
        "took = time.perf_counter() - start\n"
        "heavy = set('numpy ipywidgets plotly graphviz nbformat xdsl llvmlite lark'.split())\n"
        "print(sorted((set(sys.modules) - before) & heavy), len(set(sys.modules) - before), took)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            str(ROOT / r) for r in ("compiler", "kernels", "wia_notebook")
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    heavy, _, rest = done.stdout.partition("]")
    assert heavy == "["
    assert int(rest.split()[0]) < 25  # modules of our own and little else: what 30 ms can hold


def test_unloading_takes_everything_away(shell):
    matchers = len(shell.Completer.custom_matchers)
    assert "wia" in shell.magics_manager.magics["cell"]
    shell.run_line_magic("unload_ext", "wia_notebook")
    assert "wia" not in shell.magics_manager.magics["cell"]
    assert not [name for name in shell.magics_manager.magics["line"] if name.startswith("wia")]
    assert len(shell.Completer.custom_matchers) == matchers - 1
    shell.run_line_magic("load_ext", "wia_notebook")
    assert "wia" in shell.magics_manager.magics["cell"]


def test_kernels_land_under_their_own_names(shell):
    explorer = value(shell, "%%wia\n" + SCALE + FIXED)
    assert isinstance(shell.user_ns["scale"], Kernel) and isinstance(shell.user_ns["fixed"], Kernel)
    assert isinstance(explorer, Explorer) and explorer.kernel == "fixed"
    assert explorer.stage("x86").text
    A = np.arange(17, dtype=np.float32)
    np.testing.assert_array_equal(shell.user_ns["scale"](A), A * 2)


def test_shapes_that_are_not_known_leave_the_stages_before_them(shell):
    explorer = value(shell, "%%wia\n" + SCALE)
    assert [stage.name for stage in explorer.trace.stages] == ["source", "import", "inline"]
    assert "Call scale(…)" in repr(explorer) and "--args A=f32[64,64]" in repr(explorer)
    assert explorer.build is None


@pytest.mark.parametrize(
    "line",
    [
        "--args A=f32[3,17]",
        '--args "A=f32[3, 17]"',
        "--args A=f32[3, 17]",
        "--args=A=f32[3,17]",
        "-a A=f32[3,17] --target cpu",
    ],
)
def test_args_fix_the_shapes(shell, line):
    explorer = value(shell, f"%%wia {line}\n{SCALE}")
    assert [spec.spec.shape for spec in explorer.build.inputs] == [(3, 17)]


def test_variables_expand_on_the_line(shell):
    shell.user_ns["M"] = 127
    assert value(shell, "%%wia --args A=f32[{M}]\n" + SCALE).build.inputs[0].spec.shape == (127,)


def test_run_calls_the_kernel_and_takes_its_shapes(shell):
    shell.user_ns["A"] = np.ones((3, 4), np.float32)
    explorer = value(shell, "%%wia --run scale(A, ) -f\n" + SCALE)
    np.testing.assert_array_equal(explorer.result, np.full((3, 4), 2, np.float32))
    assert explorer.build.inputs[0].spec.shape == (3, 4)
    value(shell, "%%wia --run C = scale(A[:, ::2]) -q\n" + SCALE)
    assert shell.user_ns["C"].shape == (3, 2)
    assert isinstance(shell.user_ns["scale"], Kernel)
    total = value(shell, '%%wia --run="sum(scale(A).sum() for _ in range(2))"\n' + SCALE)
    assert total.result == 48.0 and total.build is not None


def test_run_records_calls_inside_functions_and_leaves_other_names_alone(shell):
    kernel = value(shell, "%%wia -q\n" + SCALE) or shell.user_ns["scale"]
    shell.user_ns["A"] = np.ones(3, np.float32)
    before = set(shell.user_ns)
    result, called = run_expression(shell, "D = (lambda x: scale(x))(A)", {"scale": kernel})
    assert result is None and set(called) == {"scale"}
    assert set(shell.user_ns) - before == {"D"}


def test_quiet_shows_nothing(shell):
    assert value(shell, "%%wia -q\n" + FIXED) is None
    assert isinstance(shell.user_ns["fixed"], Kernel)


def test_force_compiles_anew(shell):
    cell = "\n" + FIXED
    assert value(shell, "%%wia" + cell).build is not None
    assert value(shell, "%%wia" + cell).build.cache.hit == "memory"
    forced = value(shell, "%%wia --force" + cell)
    assert forced.exhibit.origin.startswith("compiled")


def test_another_target(shell):
    explorer = value(
        shell,
        "%%wia --target tpu:spec --args A=f32[8,16],B=f32[16,4]" + PRODUCT,
    )
    assert explorer.target == "tpu:spec" and "systolic_execute" in explorer.build.assembly("tpu")
    assert shell.user_ns["mm"].target.name == "tpu:spec"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("--args Z=f32[3]", "no parameter Z; the cell's kernels take A"),
        ("--run 1 +", "is not Python"),
        ('--args "A=f32', "a quote"),
    ],
)
def test_bad_options_are_one_line(shell, line, message):
    done, text = run(shell, f"%%wia {line}\n{SCALE}")
    assert isinstance(done.error_in_exec, UsageError)
    assert message in text and "Traceback" not in text


def test_missing_arguments_are_named(shell):
    done, text = run(
        shell,
        "%%wia --args A=f32[3,4]" + PRODUCT,
    )
    assert isinstance(done.error_in_exec, UsageError) and "mm also needs B" in text


def test_an_error_fails_the_cell_at_its_line(shell):
    done, text = run(
        shell, "%%wia\nkernel f(input A: tensor, output B: tensor) {\n  B = relux(A);\n}"
    )
    assert isinstance(done.error_in_exec, CompileError)
    plain = without_colours(text)
    assert "error: no op or kernel named 'relux'" in plain
    assert "   3 |   B = relux(A);" in plain and "     |       ^^^^^" in plain
    assert "help: did you mean 'relu'?" in plain
    assert "Traceback" not in plain and ".py" not in plain
    assert "f" not in shell.user_ns


def test_errors_name_the_cell_and_have_colours_where_the_shell_has(shell):
    bad = "%%wia\nkernel f(input A: tensor, output B: tensor) { B = relux(A); }"
    run(shell, "1")
    _, text = run(shell, bad)
    assert "In [2]:2:" in without_colours(text)
    shell.colors = "nocolor"
    _, plain = run(shell, bad)
    assert "\x1b" not in plain and "error: no op" in plain


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("%%wia --args A=f33[3]\n" + SCALE, ArgumentError),
        ("%%wia --target gpu:sm_1\n" + FIXED, TargetError),
        (
            "%%wia --args A=f32[3,4],B=f32[5,6]" + PRODUCT,
            CompileError,
        ),
    ],
)
def test_faults_of_the_build_belong_to_the_cell(shell, cell, kind):
    done, text = run(shell, cell)
    assert isinstance(done.error_in_exec, kind), text
    assert "Traceback" not in text


def test_pythons_own_errors_in_run_are_pythons(shell):
    done, text = run(shell, "%%wia --run scale(nothing)\n" + SCALE)
    assert isinstance(done.error_in_exec, NameError) and "nothing" in text


@pytest.mark.parametrize(
    "magic",
    [
        "%%wia --help\nx",
        "%wia_profile -h",
        "%wia_roofline --help",
        "%wia_stages -h",
        "%wia_doctor -h",
    ],
)
def test_help_documents_the_options(shell, magic):
    done, text = run(shell, magic)
    assert done.success and "options:" in text and "%wia" in text


def test_question_mark_documents_the_magic(shell):
    done, _ = run(shell, "%%wia?")
    assert done.success
    assert "--args" in shell.magics_manager.magics["cell"]["wia"].__doc__


def test_profile_and_roofline_are_objects(shell):
    value(shell, "%%wia -q\n" + SCALE)
    shell.user_ns["A"] = np.ones((64, 64), np.float32)
    profile = value(shell, "%wia_profile scale(A)")
    assert profile.time > 0 and profile.source == "measured"
    shell.user_ns["profile"] = profile
    chart = value(shell, "%wia_roofline profile")
    bundle = chart._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "application/vnd.plotly.v1+json"}
    assert "<img" in bundle["text/html"] and "measured on this machine" in bundle["text/plain"]
    assert chart.svg.startswith("<svg")


def test_an_estimated_time_is_shown_as_a_models(shell):
    value(shell, "%%wia -q\n" + SCALE)
    shell.user_ns["A"] = np.ones((64, 64), np.float32)
    chart = value(shell, "%wia_roofline -t gpu:sm_90 -d H200 scale(A)")
    (point,) = chart.roofline.points
    assert point.label == "scale (model)" and point.rate_low < point.rate < point.rate_high
    assert "by a model of H200" in chart.roofline.headline
    text = repr(chart)
    assert "estimated time" in text and "±50 %: to rank kernels, not to time them" in text
    shown, _ = shell.display_formatter.format(chart.profile)
    assert "by a model of H200" in shown["text/html"] and "scale (model)" in chart.svg
    assert "estimate: H200" in shown["text/plain"]
    assert chart.profile.time is None and chart.roofline.facts[0][:2] == ("time", "–")


def test_profile_needs_a_call(shell):
    for line in ("%wia_profile", "%wia_roofline", "%wia_stages"):
        done, _ = run(shell, line)
        assert isinstance(done.error_in_exec, UsageError)


def test_stages_of_kernels_builds_and_calls(shell):
    explorer = value(shell, "%%wia\n" + SCALE + FIXED)
    assert "x86" in repr(value(shell, "%wia_stages fixed"))
    table = value(shell, "%wia_stages scale")
    assert "import" in repr(table) and "x86" not in repr(table) and "Call scale" in repr(table)
    shell.user_ns["build"] = explorer.build
    assert value(shell, "%wia_stages build").trace == explorer.trace
    shell.user_ns["A"] = np.ones(3, np.float32)
    assert "<table>" in value(shell, "%wia_stages scale(A)")._repr_html_()
    assert "ptx" in [
        s.name for s in value(shell, "%wia_stages --target gpu:sm_90 scale(A)").trace.stages
    ]


def test_doctor(shell):
    assert "numpy" in repr(value(shell, "%wia_doctor"))


def test_builds_programs_and_profiles_show_themselves(shell):
    explorer = value(shell, "%%wia\n" + FIXED)
    formatted, _ = shell.display_formatter.format(explorer.build)
    assert "fixed" in formatted["text/html"] and "x86" in formatted["text/plain"]
    import wia_compiler

    program, _ = shell.display_formatter.format(wia_compiler.compile(SCALE))
    assert "import" in program["text/plain"]
    shell.run_line_magic("unload_ext", "wia_notebook")
    plain, _ = shell.display_formatter.format(explorer.build)
    assert "text/html" not in plain


def test_a_build_alone_offers_every_target_and_runs(shell):
    build = value(shell, "%%wia\n" + FIXED).build
    alone = Explorer([Subject(None, None, build.to("gpu:sm_90"))])
    assert {"cpu", "gpu:sm_90"} <= set(alone.widget.data["targets"])
    alone.show(target="cpu")
    assert alone.widget.data["target"] == "cpu" and alone.build.inputs == build.inputs
    alone.run()
    assert alone.widget.data["roofline"]["rows"]


def test_a_run_on_the_simulator_counts_along_the_lines(shell):
    explorer = value(
        shell, f"%%wia -t gpu:sm_90 --args A=f32[40,24],B=f32[24,30]\n{PRODUCT_OF_TWO}"
    )
    assert explorer.widget.data["counts"] is None
    explorer.run()
    shown = explorer.exhibit
    counters = {name: value for name, value, _ in shown.roofline.counters}
    (warps,) = [m for m in shown.counts["ptx"].metrics if m.title == "warp instructions"]
    lines = shown.assembly["ptx"].splitlines()
    assert units.number(int(warps.total)) == counters["ptx_inst_executed"]
    assert all(lines[line - 1].strip() for line in warps.values)
    cell = {m.title: m.values for m in shown.counts["cell"].metrics}["FLOPs"]
    product = next(n for n, line in enumerate(explorer.trace.source.splitlines(), 1) if "@" in line)
    assert max(cell, key=cell.__getitem__) == product
    pane = next(each for each in explorer.widget.data["assembly"] if each["format"] == "ptx")
    assert pane["counts"]["source"] == "simulated" and explorer.widget.data["counts"]


def test_a_schedule_is_applied_and_what_ran_before_stays_in_sight(shell):
    explorer = value(
        shell, f"%%wia -t gpu:sm_90 --args A=f32[40,24],B=f32[24,30]\n{PRODUCT_OF_TWO}"
    )
    chosen = explorer.build.schedule
    ask = {"type": "schedule", "text": "tile i 16, j 16, k 8; thread_tile i 2, j 1"}
    explorer.widget._handle_custom_msg(ask, [])
    assert "tile i 16, j 16, k 8;" in explorer.widget.data["schedule"]["text"]
    assert explorer.widget.data["schedule"]["own"] and explorer.exhibit.roofline is None
    explorer.run()
    explorer.widget._handle_custom_msg({"type": "schedule", "text": None}, [])
    assert explorer.build.schedule == chosen and not explorer.exhibit.own_schedule
    labels = [point.label for point in explorer.exhibit.roofline.points]
    assert labels == ["1", "mm2 (model)"]
    explorer.widget._handle_custom_msg({"type": "schedule", "text": "tile i 9; parallel i"}, [])
    assert explorer.widget.status["kind"] == "error"
    assert "<schedule>:1" in explorer.widget.status["text"]
    assert explorer.build.schedule == chosen


def test_what_is_on_show_after_a_schedule_is_counted_anew(shell):
    explorer = value(
        shell, f"%%wia -t gpu:sm_90 --args A=f32[40,24],B=f32[24,30]\n{PRODUCT_OF_TWO}"
    )
    explorer.run()
    before = explorer.exhibit.counts["ptx"]
    explorer.reschedule("tile i 16, j 16, k 8; thread_tile i 2, j 1")
    assert explorer.exhibit.counts["ptx"] != before
    explorer.show(target="cpu")
    assert explorer.exhibit.counts == {} and explorer.exhibit.roofline is None


def test_split_line_keeps_expressions_whole():
    assert split_line("--run f(A, -1) -q") == ["--run", "f(A, -1)", "-q"]
    assert split_line("--args A=f32[3, 4], B=f32 --run g('a  b')") == [
        "--args",
        "A=f32[3, 4], B=f32",
        "--run",
        "g('a  b')",
    ]
    assert split_line('--run "f(A, B)"') == ["--run", "f(A, B)"]
    assert split_line("") == []
    assert split_line("--args A=f32[3], -q") == ["--args", "A=f32[3],", "-q"]


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


CPP_SUM = (
    "%%wia --language c++\nfloat sum = 0;\nfor (int i = 0; i < N; i++) {\n  sum += array[i];\n}\n"
)


def test_free_names_are_the_users_variables(shell):
    run(shell, "import numpy as np\nweight = np.ones((3, 2), 'f4')\nparams = (np.ones(2, 'f4'), 2)")
    text = (
        "%%wia -q\nfunc @dense(%x: tensor) -> tensor {\n  %0 = matmul(%x, %weight)\n"
        "  %1 = add(%0, %params.0)\n  %2 = mul(%1, %params.1)\n  return %2\n}"
    )
    value(shell, text)
    np.testing.assert_array_equal(value(shell, "dense(np.ones((1, 3), 'f4'))"), [[8, 8]])
    run(shell, "weight = np.zeros((3, 5), 'f4')\nparams = (np.ones(5, 'f4'), 2)")
    np.testing.assert_array_equal(value(shell, "dense(np.ones((1, 3), 'f4'))"), [[2] * 5])
    done, shown = run(shell, text.replace("%weight", "%wieght"))
    assert not done.success and "no value named '%wieght'" in shown and "In [" in shown


def test_a_cell_of_cpp_is_a_kernel_with_an_explorer(shell):
    run(shell, "import numpy as np\nN = 3\narray = np.ones(7, 'f4')\nsum = 'not a number'")
    explorer = value(shell, f"{CPP_SUM}")
    assert isinstance(explorer, Explorer)
    assert value(shell, "float(snippet(array))") == 7.0  # N is the size of the array
    explorer = value(shell, CPP_SUM.replace("c++", "c++ --run snippet(array * 2)"))
    assert explorer.result == 14.0
    trace = explorer.exhibit.trace
    assert trace.source.startswith("// %%wia --language c++")
    assert trace.stage("source").text.startswith("float sum = 0;")


def test_functions_of_cpp_see_the_users_variables(shell):
    run(shell, "import numpy as np\nfactor = 3")
    value(
        shell,
        "%%wia -l c++ -q\nvoid f(const float* a, float* b, int n) {\n"
        "  for (int i = 0; i < n; i++) b[i] = a[i] * factor;\n}",
    )
    np.testing.assert_array_equal(value(shell, "f(np.float32([1, 2]))"), [3, 6])


@pytest.mark.parametrize(
    "cell, line",
    [
        ("%%wia -l c++\nvoid f(const float* a, float* b, int n) {\n  b[0] = compute(a[0]);\n}", 3),
        ("%%wia -l c++\nfor (int i = 0; i < N; i++) {\n  c[i] = a[i]\n}", 3),
        ("import wia_compiler as wia\n@wia.kernel\ndef f(x):\n    return x @ nothing", 4),
        ("import wia_compiler as wia\n@wia.kernel\ndef f(x):\n    return x.softmx()", 4),
    ],
)
def test_errors_of_cpp_and_python_show_their_line_and_no_frames(shell, cell, line):
    done, shown = run(shell, cell)
    assert isinstance(done.error_in_exec, CompileError)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert re.search(rf"--> In \[\d+\]:{line}:\d+\n", plain), plain
    assert "Traceback" not in plain and "wia_compiler/" not in plain
    assert plain.strip().startswith("error: ") and "^" in plain


def test_a_python_kernel_of_a_cell(shell):
    run(shell, "import numpy as np, wia_compiler as wia\nw = np.ones((3, 2), 'f4')")
    value(shell, "@wia.kernel\ndef f(x):\n    return np.maximum(x @ w, 0.0)")
    np.testing.assert_array_equal(value(shell, "f(np.ones((1, 3), 'f4'))"), [[3, 3]])
    value(shell, "%wia_stages f(np.ones((1, 3), 'f4'))")
    value(shell, "@wia.kernel\ndef g(x):\n    return f(x) + 1.0")
    np.testing.assert_array_equal(value(shell, "g(np.ones((1, 3), 'f4'))"), [[4, 4]])


def test_debug_and_verify_reach_the_kernels(shell):
    value(shell, f"%%wia --debug --verify -q\n{SCALE}")
    options = shell.user_ns["scale"].options
    assert options.debug and options.verify
    done, shown = run(shell, f"%%wia --language rust\n{SCALE}")
    assert not done.success and "expected one of 'wia', 'c++'" in shown


def test_a_schedule_of_the_cell_is_followed_and_its_faults_stand_at_its_line(shell):
    cell = f"%%wia -q\n{PRODUCT}schedule mm {{ tile i 8, j 8; thread_tile i 4; }}"
    done, text = run(shell, cell)
    assert done.success, text
    shell.user_ns["A"] = np.ones((20, 20), np.float32)
    build = value(shell, "mm.build(A, A)")
    assert "tile i 8, j 8;" in build.schedule
    assert (value(shell, "mm(A, A)") == 20).all()
    wrong = f"%%wia --run mm(A,A)\n{PRODUCT}schedule mm {{ tile i 8; parallel k; }}"
    done, text = run(shell, wrong)
    assert not done.success
    assert "no loop 'k'" in text or "axis 'k' has no loop" in text
    assert "schedule mm { tile i 8; parallel k; }" in text
