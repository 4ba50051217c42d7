"""docs/fusion.md: its programs are compiled, and what it shows under them is what comes of it."""

import re

import pytest
from fusion_page import PAGE, examples, shown
from wia_compiler.passes.fusing.costs import THRESHOLD

EXAMPLES = examples()


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_what_is_shown_is_what_is_decided(number: int) -> None:
    program, text = EXAMPLES[number]
    assert text.strip() == shown(program)


def test_every_program_of_the_page_is_an_example() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("```wia") == len(EXAMPLES) == 11
    assert f"`benefit > {THRESHOLD} × cost`" in page


def test_the_page_links_to_pages_that_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    linked = [*re.findall(r"\]\((\w+\.md)", page), *re.findall(r"docs/(\w+\.md)", page)]
    assert linked
    for name in linked:
        assert (PAGE.parent / name).exists(), name
