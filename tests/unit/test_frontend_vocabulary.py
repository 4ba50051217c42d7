"""The word lists agree with the grammar and the declarations they describe."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import wia_compiler.frontend
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.frontend import vocabulary
from wia_compiler.frontend.suggestions import DTYPE_ELSEWHERE, ELSEWHERE

GRAMMAR = Path(wia_compiler.frontend.__path__[0], "grammar.lark").read_text("utf-8")


def test_keywords_are_those_of_the_grammar() -> None:
    found = re.findall(r'^[A-Z_]+: (?:"([a-z_]+)"|/([a-z]+)\(\?!.*\)/)$', GRAMMAR, re.MULTILINE)
    assert {one or other for one, other in found} == set(vocabulary.KEYWORDS)


def test_types_are_tensor_and_the_dtypes() -> None:
    assert list(vocabulary.TYPES) == ["tensor", *DTYPES]


def test_operators_are_those_of_the_declarations() -> None:
    listed = {
        op: spelling.replace(" (sign)", "")
        for row in vocabulary.OPERATORS
        for spelling, op in zip(row.spellings, row.operations, strict=False)
    }
    declared = {row.name: row.operator for row in DECLARATIONS.values() if row.operator}
    assert listed == {**declared, "neg": "-"}


def test_every_op_is_described() -> None:
    words = vocabulary.operations()
    assert set(words) == {*DECLARATIONS, *vocabulary.ALIASES}
    assert list(words) == sorted(words)
    assert words["softmax"].signature == "softmax(input, dim=-1)"
    assert words["softmax"].parameters == ("input", "dim", "axis")
    assert words["gelu"].signature == 'gelu(input, approximate="none")'
    assert words["maximum"].signature == "maximum(input, other)"
    assert words["add"].operator == "+"
    assert all(word.doc and word.family for word in words.values())


def test_suggestions_lead_to_things_that_exist() -> None:
    assert set(ELSEWHERE.values()) <= set(DECLARATIONS)
    assert not set(ELSEWHERE) & set(DECLARATIONS)
    assert set(DTYPE_ELSEWHERE.values()) <= set(DTYPES)
    assert not set(DTYPE_ELSEWHERE) & set(DTYPES)


def test_describe_finds_every_kind_of_word() -> None:
    for word in ("kernel", "tensor", "bf16", "relu", "minimum", "batch_norm"):
        assert vocabulary.describe(word)
    assert vocabulary.describe("nothing") is None


def test_importing_the_word_lists_loads_neither_the_grammar_nor_the_ir() -> None:
    code = (
        "import sys; import wia_compiler.frontend.vocabulary; "
        "print(sorted({'lark', 'xdsl', 'numpy'} & set(sys.modules)))"
    )
    path = [entry for entry in sys.path if entry]
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"
