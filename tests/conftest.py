"""What every folder of tests shares: goldens, one file each, rewritten by ``--update-golden``."""

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what was made to the golden files instead of comparing it",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("ptx/vector_add.sm_90.ptx", text)``: the text equals that file of tests/golden."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.is_file(), f"no golden {path}: make it with --update-golden"
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), name, "made now", lineterm=""
            )
            shown = "\n".join(list(lines)[:80])
            pytest.fail(f"{shown}\n(--update-golden accepts it)", pytrace=False)

    return compare
