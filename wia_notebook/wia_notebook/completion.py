"""Tab in a ``%%wia`` cell: words of the language, ops and their keywords, names of the cell."""

from __future__ import annotations

import re
from typing import Any

_WORD = re.compile(r"[^\W\d]\w*$")
_NAME = re.compile(r"[^\W\d]\w*")
_CALL = re.compile(r"([^\W\d]\w*)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)$")
_COMMENT = re.compile(r"//.*|#.*|/\*.*?\*/", re.DOTALL)
_SCHEDULE = re.compile(r"\bschedule\s+[\w.]+\s*\{([^{}]*)$")
_OPTIONS = ("--target", "--args", "--run", "--quiet", "--force", "--static", "--help")


def register(shell: Any) -> None:
    """Add the matcher to the shell's completer."""
    from IPython.core.completer import context_matcher

    if getattr(shell, "Completer", None) is None or _registered(shell):
        return
    shell.Completer.custom_matchers.append(context_matcher()(wia_matcher))


def unregister(shell: Any) -> None:
    """Take it away."""
    if getattr(shell, "Completer", None) is not None:
        for matcher in _registered(shell):
            shell.Completer.custom_matchers.remove(matcher)


def _registered(shell: Any) -> list[Any]:
    return [
        m for m in shell.Completer.custom_matchers if getattr(m, "__name__", "") == "wia_matcher"
    ]


def wia_matcher(context: Any) -> dict[str, Any]:
    """IPython's matcher: completions for ``%%wia`` cells, nothing anywhere else."""
    from IPython.core.completer import SimpleCompletion

    text: str = context.full_text
    if not text.lstrip().startswith("%%wia"):
        return {"completions": []}
    before: str = context.text_until_cursor
    if context.cursor_line == 0:
        fragment, found = option_completions(before)
    else:
        fragment, found = cell_completions(_until_cursor(context), text)
    return {
        "completions": [SimpleCompletion(text=word, type=kind) for word, kind in found],
        "matched_fragment": fragment,
        "suppress": True,
    }


def option_completions(line: str) -> tuple[str, list[tuple[str, str]]]:
    """Options of the magic, and targets after ``--target``."""
    fragment = line.split(" ")[-1]
    if re.search(r"(--target|-t)[ =]+\S*$", line):
        from wia_compiler.runtime.targets import targets

        fragment = re.split(r"[ =]", line)[-1]
        return fragment, [(name, "target") for name in targets() if name.startswith(fragment)]
    return fragment, [(name, "option") for name in _OPTIONS if name.startswith(fragment)]


def cell_completions(before: str, cell: str) -> tuple[str, list[tuple[str, str]]]:
    """What can stand at the end of ``before``: keywords of the call, then names, ops, words."""
    from wia_compiler.frontend import vocabulary

    match = _WORD.search(before)
    fragment = match.group() if match else ""
    head = before[: len(before) - len(fragment)]
    if re.search(r"(//|#)[^\n]*$", head):
        return fragment, []
    in_schedule = _SCHEDULE.search(head)
    if in_schedule is not None:
        body = _COMMENT.sub("", cell.partition("\n")[2])
        names = dict.fromkeys(n for n in _NAME.findall(body) if n != fragment)
        words = {*vocabulary.KEYWORDS, *vocabulary.TYPES, *vocabulary.DIRECTIVES}
        own = [(name, "variable") for name in names if name not in words]
        lines = [(name, "keyword") for name in vocabulary.DIRECTIVES]
        begins = not in_schedule[1].rpartition(";")[2].strip()
        return fragment, _starting(lines if begins else own, fragment)
    operations = vocabulary.operations()
    if re.search(r":\s*$", head) or re.search(r"<[^<>]*$", head):
        types = [(name, "type") for name in vocabulary.TYPES]
        return fragment, _starting(types, fragment)
    found: list[tuple[str, str]] = []
    call = _CALL.search(head)
    if call is not None and call[1] in operations and re.search(r"[(,]\s*$", head):
        given = set(re.findall(r"(\w+)\s*=", call[2]))
        names = dict.fromkeys(operations[call[1]].parameters)
        found += [(f"{name}=", "keyword argument") for name in names if name not in given]
    body = _COMMENT.sub("", cell.partition("\n")[2])
    words = {*vocabulary.KEYWORDS, *vocabulary.TYPES}
    own = [
        n
        for n in dict.fromkeys(_NAME.findall(body))
        if n != fragment and n not in words and n not in operations
    ]
    found += [(name, "variable") for name in own]
    found += [(name, "function") for name in operations]
    found += [(name, "keyword") for name in vocabulary.KEYWORDS]
    found += [(name, "type") for name in vocabulary.TYPES]
    return fragment, _starting(found, fragment)


def _starting(found: list[tuple[str, str]], fragment: str) -> list[tuple[str, str]]:
    return [each for each in found if each[0].startswith(fragment)]


def _until_cursor(context: Any) -> str:
    """The whole cell before the cursor, not its line alone."""
    lines = context.full_text.split("\n")[: context.cursor_line]
    return "\n".join([*lines, context.text_until_cursor])
