"""What every folder of tests shares: goldens and the option that rewrites them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite expected texts with what came out; read the difference before committing",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """``golden(path, text)``: ``text`` must equal what the file holds (one newline at its end)."""

    def check(path: Path, text: str) -> None:
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            return
        assert path.is_file(), f"{path.name} is missing; run with --update-golden to write it"
        assert text == path.read_text("utf-8"), f"{path.name} differs; see --update-golden"

    return check
