"""Tab in a ``%%wia`` cell, and the colours of its words."""

import json
import re
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from wia_compiler.frontend import vocabulary
from wia_notebook.completion import cell_completions, option_completions

import wia_notebook

CELL = """%%wia
kernel mm(input Left: tensor, input Right: tensor, output Out: tensor) {
  product = matmul(Left, Right);
  """
EXTENSION = Path(wia_notebook.__file__).parent / "labextension"


def complete(before, rest="\n}"):
    fragment, found = cell_completions(before, before + rest)
    assert before.endswith(fragment)
    return [name for name, _ in found]


def test_ops_words_and_names_of_the_cell():
    assert "softmax" in complete(CELL + "x = soft")
    assert complete(CELL + "pro") == ["product"]
    assert complete(CELL + "Le") == ["Left"]
    assert "mm" in complete(CELL + "m") and "matmul" in complete(CELL + "m")
    assert complete("%%wia\nker") == ["kernel"]


def test_keywords_of_the_call_come_first_and_once():
    assert "axis=" in complete(CELL + "x = softmax(Left, ")[:4]
    assert complete(CELL + "x = softmax(Left, ax")[0] == "axis="
    assert "axis=" not in complete(CELL + "x = softmax(Left, axis=1, ")


def test_types_where_a_type_stands():
    assert complete("%%wia\nkernel f(input A: te") == ["tensor"]
    assert complete("%%wia\nkernel f(input A: tensor<M, K, bf") == ["bf16"]
    assert "relu" not in complete("%%wia\nkernel f(input A: ")


def test_nothing_in_comments():
    assert complete(CELL + "// soft") == []
    assert complete(CELL + "# soft") == []


def test_options_and_targets():
    assert option_completions("%%wia --ta") == ("--ta", [("--target", "option")])
    fragment, found = option_completions("%%wia --target gpu:sm_9")
    assert fragment == "gpu:sm_9" and ("gpu:sm_90", "target") in found


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "wia_notebook")
    yield shell
    shell.history_manager.end_session()
    InteractiveShell.clear_instance()


def test_the_shell_completes_wia_cells_and_leaves_python_alone(shell):
    shell.user_ns["soft_python_name"] = 1
    with provisionalcompleter():
        text = CELL + "x = soft"
        found = list(shell.Completer.completions(text, len(text)))
        assert found[0].text == "softmax" and found[0].type == "function"
        assert text[found[0].start : found[0].end] == "soft"
        python = "x = soft"
        assert "softmax" not in [c.text for c in shell.Completer.completions(python, len(python))]


def test_the_labextension_knows_the_words_of_the_language():
    package = json.loads((EXTENSION / "package.json").read_text())
    script = (EXTENSION / package["jupyterlab"]["_build"]["load"]).read_text()
    keywords = re.search(r'KEYWORDS =\s+"([^"]*)"', script)[1].split()
    types = re.search(r'TYPES = "([^"]*)"', script)[1].split()
    assert sorted(keywords) == sorted(vocabulary.KEYWORDS)
    assert sorted(types) == sorted(vocabulary.TYPES)
    assert json.loads((EXTENSION / "install.json").read_text())["packageName"] == package["name"]


def test_the_wheel_ships_the_labextension():
    import tomllib

    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    (source,) = [
        path for path, to in shared.items() if to == "share/jupyter/labextensions/wia-notebook"
    ]
    assert (root / source / "package.json").is_file()


def test_a_schedule_completes_directives_then_names():
    cell = CELL + "}\nschedule mm {\n  "
    assert {"tile", "thread_tile"} <= set(complete(cell + "t")) and "relu" not in complete(cell)
    assert "thread_tile" in complete(cell + "tile i 8;\n  th")
    assert complete(cell + "pack Le") == ["Left"]
    assert "softmax" in complete(cell + "tile i 8;\n}\nkernel k() { x = soft")
