"""Rules about the text of the project that no linter knows."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = ROOT / "compiler" / "wia_compiler"
SOURCES = sorted(
    path
    for room in ("compiler", "kernels", "wia_notebook")
    for path in (ROOT / room).rglob("*.py")
    if "__pycache__" not in path.parts
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{name(path)} has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 600, f"{name(path)} has {lines} lines: is it one room, or several?"


def calls(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_only_the_command_line_prints() -> None:
    printing = {
        name(path)
        for path in sorted(COMPILER.rglob("*.py"))
        if "print" in calls(path) and "cli" not in name(path)
    }
    assert not printing


def test_only_settings_reads_the_environment() -> None:
    reading = {
        name(path)
        for path in SOURCES
        if re.search(r"os\.(environ|getenv)", path.read_text(encoding="utf-8"))
    }
    assert reading <= {"compiler/wia_compiler/base/settings.py"}


def test_shared_code_does_not_ask_for_the_target() -> None:
    shared = [*(COMPILER / "passes").rglob("*.py"), *(COMPILER / "dialects").rglob("*.py")]
    asking = {
        name(path)
        for path in shared
        if re.search(r"==\s*\"(cpu|gpu|tpu)", path.read_text(encoding="utf-8"))
        or re.search(r"startswith\(\"(cpu|gpu|tpu)", path.read_text(encoding="utf-8"))
    }
    assert not asking


def test_every_target_folder_has_the_same_files() -> None:
    wanted = {"target.py", "schedule.py", "lower.py", "emit.py", "execute.py"}
    for folder in sorted((COMPILER / "backends").iterdir()):
        if folder.is_dir() and folder.name != "__pycache__":
            present = {path.name for path in folder.iterdir()}
            assert wanted <= present, f"{folder.name} lacks {sorted(wanted - present)}"


def test_the_readme_names_every_make_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make notebook" in readme
    assert "make test" in readme
    assert {"setup", "notebook", "test", "bench", "lint", "size"} <= set(targets)


def test_no_file_names_a_place_on_one_machine() -> None:
    for path in [*SOURCES, *(ROOT / "docs").rglob("*.md"), *(ROOT / "tutorials").rglob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(home|root|work|Users)/\w", text), name(path)
