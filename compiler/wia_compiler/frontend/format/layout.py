"""Lines to text: indentation, spaces, what is too long broken, trailing comments in a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wia_compiler.frontend.format.lines import Line
from wia_compiler.frontend.format.spacing import Place, has_space, is_sign, places
from wia_compiler.frontend.format.tokens import Word

WIDTH = 100
"""Columns that a line may have."""
INDENT = "    "

_OPERATORS = frozenset(("+", "-", "*", "/", "%", "@", "&&", "||", "?", ":", "="))


@dataclass
class _Row:
    """One row of text, and the comment at its end."""

    text: str
    trailing: str | None = None


def text_of(lines: Sequence[Line]) -> str:
    """The text of grouped lines."""
    rows: list[_Row] = []
    for line in _with_short_blocks(lines):
        if line.blank:
            rows.append(_Row(""))
        rows += _written(line)
        if line.trailing is not None:
            rows[-1].trailing = line.trailing
    return "\n".join([*_with_comments(rows), ""]) if rows else ""


def _with_short_blocks(lines: Sequence[Line]) -> list[Line]:
    """Blocks of one statement that stood on one line stay there where they fit."""
    found: list[Line] = []
    for line in lines:
        found.append(line)
        if line.ends_short_block:
            opening, body, _ = found[-3:]
            words = [*opening.words, *body.words, *line.words]
            joined = replace(opening, words=words, trailing=line.trailing)
            if len(_written(joined)) == 1:
                found[-3:] = [joined]
    return found


def _with_comments(rows: Sequence[_Row]) -> list[str]:
    """Trailing comments of neighbours with one indentation share a column, as gofmt has it."""
    found: list[str] = []
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and _goes_on(rows[start], rows[end]):
            end += 1
        widest = max(len(row.text) for row in rows[start:end]) + 2
        for row in rows[start:end]:
            comment = "" if row.trailing is None else row.trailing
            found.append(f"{row.text:<{widest}}{comment}".rstrip())
        start = end
    return found


def _goes_on(first: _Row, row: _Row) -> bool:
    depths = {len(each.text) - len(each.text.lstrip()) for each in (first, row)}
    return first.trailing is not None and row.trailing is not None and len(depths) == 1


def _written(line: Line) -> list[_Row]:
    """The rows of one line."""
    indent = INDENT * line.depth
    if line.comment is not None:
        return [_Row(f"{indent}{line.comment}")]
    words = line.words
    around = places(words, is_notation=line.is_notation, is_header=line.is_header)
    listed = line.is_header and (_is_listed(words, around) or _has_line_comment(words))
    if not listed and not _has_line_comment(words):
        row = indent + _row(words, around)
        if len(row) <= WIDTH:
            return [_Row(row)]
        listed = line.is_header
    if listed and _can_be_listed(words, around):
        return _one_a_row(words, around, line.depth)
    return _filled(words, around, line.depth)


def _row(words: Sequence[Word], around: Sequence[Place], start: int = 0) -> str:
    return "".join(_pieces(words, around, start)).lstrip()


def _pieces(words: Sequence[Word], around: Sequence[Place], start: int) -> list[str]:
    """Each word with the space and the comments before it."""
    found: list[str] = []
    for index in range(start, len(words)):
        word = words[index]
        before = words[index - 1] if index else None
        previous = words[index - 2] if index > 1 else None
        spaced = before is not None and has_space(before, word, around[index], previous)
        comments = "".join(f" {comment.text}" for comment in word.comments)
        found.append(f"{comments}{' ' if spaced or comments else ''}{word.text}")
    return found


def _has_line_comment(words: Sequence[Word]) -> bool:
    return any(comment.ends_line for word in words for comment in word.comments)


def _is_listed(words: Sequence[Word], around: Sequence[Place]) -> bool:
    """Whether the parameters stand one a row: the first is not on the row of its bracket."""
    for index, place in enumerate(around[:-1]):
        if place.brackets == "p":
            return words[index + 1].line_ends > 0
    return False


def _brackets(words: Sequence[Word], around: Sequence[Place]) -> tuple[int, int] | None:
    """Where the brackets of the parameters stand, if a line has some."""
    inside = [index for index, place in enumerate(around) if place.brackets[:1] == "p"]
    ends = [i for i in inside if words[i].text == ")" and around[i].brackets == "p"]
    return (inside[0], ends[0]) if ends else None


def _can_be_listed(words: Sequence[Word], around: Sequence[Place]) -> bool:
    """Whether a line has parameters, and comments that end a row only between them."""
    found = _brackets(words, around)
    if found is None:
        return False
    opening, closing = found
    for index, word in enumerate(words):
        first = opening < index < closing and (
            words[index - 1].text == "," and around[index - 1].brackets == "p"
        )
        between = first or index in (opening + 1, closing)
        if not between and any(comment.ends_line for comment in word.comments):
            return False
    return True


def _one_a_row(words: Sequence[Word], around: Sequence[Place], depth: int) -> list[_Row]:
    """``kernel f(`` with each parameter on a row of its own, then ``) {``."""
    opening, closing = _brackets(words, around) or (0, 0)
    rows = [_Row(INDENT * depth + _row(words[: opening + 1], around))]
    first = opening + 1
    for index in range(first, closing):
        ends = words[index].text == "," and around[index].brackets == "p"
        if ends or index == closing - 1:
            _add_comments(rows, words[first], depth + 1)
            plain = [_without_comments(words[first]), *words[first + 1 : index + 1]]
            rows.append(_Row(INDENT * (depth + 1) + _row(plain, around[first : index + 1])))
            first = index + 1
    _add_comments(rows, words[closing], depth + 1)
    rest = [_without_comments(words[closing]), *words[closing + 1 :]]
    return [*rows, _Row(INDENT * depth + _row(rest, around[closing:]))]


def _add_comments(rows: list[_Row], word: Word, depth: int) -> None:
    """The comments before a word, at the end of the row above or on rows of their own."""
    for comment in word.comments:
        if comment.breaks == 0 and rows[-1].trailing is None and rows[-1].text.strip() != "":
            rows[-1].trailing = comment.text
        else:
            rows.append(_Row(f"{INDENT * depth}{comment.text}"))


def _without_comments(word: Word) -> Word:
    return replace(word, comments=())


def _filled(words: Sequence[Word], around: Sequence[Place], depth: int) -> list[_Row]:
    """Words filled into rows of ``WIDTH``, broken where the fewest brackets are open."""
    pieces = _pieces(words, around, 0)
    rows: list[_Row] = []
    start = 0
    indent = INDENT * depth
    while start < len(words):
        prefix = indent if not rows else indent + INDENT
        end, length = start, len(prefix)
        while end < len(words):
            length += len(pieces[end] if end > start else pieces[end].lstrip())
            if end > start and (length > WIDTH or _ends_row(words[end])):
                break
            end += 1
        if end < len(words) and not _ends_row(words[end]):
            end = _break_before(words, around, start, end)
        elif end < len(words):
            row = "".join(pieces[start:end]).lstrip()
            *lasting, last = words[end].comments
            inside = "".join(f" {comment.text}" for comment in lasting)
            rows.append(_Row(f"{prefix}{row}{inside}", last.text))
            pieces[end] = words[end].text
            start = end
            words = [*words[:end], _without_comments(words[end]), *words[end + 1 :]]
            continue
        rows.append(_Row(prefix + "".join(pieces[start:end]).lstrip()))
        start = end
    return rows


def _ends_row(word: Word) -> bool:
    """Whether a comment before the word ends its row."""
    return any(comment.ends_line for comment in word.comments)


def _break_before(words: Sequence[Word], around: Sequence[Place], start: int, end: int) -> int:
    """The word that begins the next row: behind a comma or before an operator.

    Of those, the one with the fewest brackets around it, and of these the last.
    """
    best, fewest = 0, 1000
    for index in range(start + 1, end + 1):
        before, word = words[index - 1], words[index]
        behind = before.text == "," or before.kind in ("RETURN",)
        is_operator = word.text in _OPERATORS and not is_sign(word, before) and word.text != "="
        breaks_division = "//" in (word.text, before.text)
        if breaks_division or not (behind or is_operator or before.text == "="):
            continue
        if word.text == ":" and not around[index].asks:
            continue
        if before.text == "=" and around[index - 1].brackets:
            continue
        depth = len(around[index].brackets)
        if depth <= fewest:
            best, fewest = index, depth
    return best if best > start else max(end, start + 1)
