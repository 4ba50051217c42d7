"""docs/numerics.md is a list of statements, and each has a test of its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "numerics.md"
_STATEMENT = re.compile(r'^- <a id="([a-z0-9-]+)"></a> (.+)$')


def statements() -> dict[str, str]:
    """Every statement of the page by its anchor."""
    found = dict[str, str]()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            match = _STATEMENT.match(line)
            assert match, f"a statement has an anchor: - <a id=…></a> {line[2:]}"
            assert match[1] not in found, f"{match[1]} stands twice"
            found[match[1]] = match[2]
    return found


def by_test() -> dict[str, str]:
    """The file of every test of a statement, by the anchor it is named after."""
    found = dict[str, str]()
    for path in sorted(HERE.glob("test_numerics_*.py")):
        if path.name == Path(__file__).name:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                anchor = node.name.removeprefix("test_").replace("_", "-")
                assert anchor not in found, f"{node.name} stands in {found[anchor]} too"
                found[anchor] = path.name
    return found


def test_every_statement_has_a_test() -> None:
    missing = [
        f"{anchor}: {text}" for anchor, text in statements().items() if anchor not in by_test()
    ]
    assert not missing, "write tests for these statements:\n" + "\n".join(missing)


def test_every_test_has_a_statement() -> None:
    stray = {anchor: file for anchor, file in by_test().items() if anchor not in statements()}
    assert not stray, f"tests without a statement in docs/numerics.md: {stray}"


def test_a_statement_is_one_sentence() -> None:
    for anchor, text in statements().items():
        plain = re.sub(r"`[^`]*`|\([^)]*\)", "", text)
        assert text.endswith("."), f"{anchor} ends with a full stop"
        assert not re.search(r"\. [A-Z]", plain), f"{anchor} is several sentences"
