"""``wia.doctor()``: found, broken or missing with what brings it."""

import importlib.metadata
import json

import pytest
from wia_compiler.runtime import doctor as doctor_module
from wia_compiler.runtime.doctor import PACKAGES, Command, doctor


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


def test_required_packages_are_found_with_their_versions():
    diagnosis = doctor()
    assert diagnosis.healthy
    assert diagnosis["numpy"].version == importlib.metadata.version("numpy")
    names = [finding.name for finding in diagnosis.findings]
    assert len(names) == len(set(names))
    for line in repr(diagnosis).splitlines()[1:]:
        assert line == "optional" or any(name in line for name in names)


def test_json_holds_what_the_table_shows():
    diagnosis = doctor()
    data = json.loads(diagnosis.to_json())
    assert data["healthy"] is True
    assert [row["name"] for row in data["findings"]] == [f.name for f in diagnosis.findings]


def test_missing_packages_name_the_command(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    diagnosis = doctor()
    assert not diagnosis.healthy
    assert diagnosis["xdsl"].remedy == "pip install xdsl"
    assert diagnosis["jupyterlab"].remedy == 'pip install "wia-notebook[notebook]"'
    assert "missing: pip install xdsl" in repr(diagnosis)


def test_missing_tools_name_the_command(monkeypatch):
    monkeypatch.setattr(doctor_module, "find_tool", lambda name: None)
    for name in ("ptxas", "nvdisasm"):
        finding = doctor()[name]
        assert finding.state == "missing" and "wia-notebook[gpu-tools]" in finding.remedy


def test_a_tool_that_does_not_run_is_broken(tmp_path):
    broken = tmp_path / "tool"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    finding = Command("tool", "tests", lambda: broken, "install it").look()
    assert finding.state == "broken" and str(broken) in finding.remedy
    working = tmp_path / "working"
    working.write_text("#!/bin/sh\necho 'working release 1.22.3, V1.22'\n")
    working.chmod(0o755)
    finding = Command("working", "tests", lambda: working, "install it").look()
    assert (finding.state, finding.version) == ("found", "1.22.3")


def test_dot_from_the_environment_is_looked_at(monkeypatch, tmp_path):
    monkeypatch.setenv("WIA_DOT", str(tmp_path / "no-dot"))
    assert doctor()["dot"].state == "broken"


def test_a_cache_folder_that_cannot_be_written_is_reported(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "file"))
    finding = doctor()["cache folder"]
    assert finding.state == "broken" and "WIA_CACHE_DIR" in finding.remedy
    monkeypatch.setenv("WIA_CACHE_SIZE", "plenty")
    assert "WIA_CACHE_SIZE='plenty'" in doctor()["cache folder"].remedy


def test_extras_that_it_names_exist():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = " ".join(
        [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    )
    for package in PACKAGES:
        assert package.name in declared, f"{package.name} is looked for but not declared"
        assert not package.extra or package.extra in extras
