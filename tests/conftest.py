"""What every folder of tests shares: goldens, one file each, rewritten by ``--update-golden``."""

import difflib
import gc
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


def pytest_collection_finish() -> None:
    """Modules and tests stay: the garbage collector need not walk them again and again.

    IR is full of cycles, so that it runs often; a tenth of the suite's time went there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


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
