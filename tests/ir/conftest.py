"""Collects ``.mlir`` files: each ``RUN`` line is a test, checked against the ``CHECK`` lines."""

from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """A ``.mlir`` file is a file of tests."""
    if file_path.suffix == ".mlir":
        return MlirFile.from_parent(parent, path=file_path)
    return None


class MlirFile(pytest.File):
    """One input with its expectations."""

    def collect(self) -> Iterator["MlirItem"]:
        """One test for each ``RUN`` line; a file without one is a test that fails."""
        from ir.opt import run_lines

        text = self.path.read_text(encoding="utf-8")
        commands = run_lines(text) or [""]
        for number, command in enumerate(commands):
            name = "run" if len(commands) == 1 else f"run{number}"
            yield MlirItem.from_parent(self, name=name, command=command, text=text)


class MlirItem(pytest.Item):
    """One ``RUN`` line."""

    def __init__(self, *, command: str, text: str, **rest: object):
        super().__init__(**rest)  # pyright: ignore[reportArgumentType]
        self.command = command
        self.text = text

    def runtest(self) -> None:
        """Run the passes and compare."""
        from ir.check_lines import CheckFailure, check
        from ir.opt import run

        if not self.command:
            raise CheckFailure("no RUN line")
        check(run(self.command, self.text), self.text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What is wrong, without frames where an expectation is not met."""
        from ir.check_lines import CheckFailure

        if isinstance(excinfo.value, CheckFailure):
            return f"{self.path.name}: {self.command}\n{excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test stands."""
        return self.path, 0, f"{self.path.name}: {self.command}"
