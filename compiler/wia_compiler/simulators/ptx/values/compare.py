"""Comparisons and choices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.floats import flush, test_property
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, alike, plain

PREDICATE = TYPES["pred"]
_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_COMBINERS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_FLAGS = frozenset({*_COMPARISONS, *_UNORDERED, "num", "nan", *_COMBINERS, "ftz"})


def _compared(form: Form, a: Array, b: Array) -> Array:
    """One comparison; of floats, those without ``u`` are false where either is NaN."""
    word = form.instruction.modifiers[0]
    if form.types[-1].kind != "float":
        return _COMPARISONS[word](a, b)
    if "ftz" in form.flags:
        a, b = flush(a), flush(b)
    unordered = np.isnan(a) | np.isnan(b)
    if word == "num":
        return ~unordered
    if word == "nan":
        return unordered
    if word in _UNORDERED:
        return _COMPARISONS[_UNORDERED[word]](a, b) | unordered
    return _COMPARISONS[word](a, b) & ~unordered


def _set_predicate(form: Form, a: Array, b: Array, *rest: Array) -> tuple[Array, Array]:
    """``setp``: the comparison and its opposite, each combined with a third predicate."""
    found = _compared(form, a, b)
    combiner = form.one_of(tuple(_COMBINERS))
    if form.types[-1].lanes > 1 and a.ndim + b.ndim:
        # Two halves: a result for each.
        halves = found[..., 0], found[..., 1]
        if not rest:
            return halves
        combine = _COMBINERS[combiner]
        return combine(halves[0], rest[0]), combine(halves[1], rest[0])
    if not rest:
        return found, ~found
    return _COMBINERS[combiner](found, rest[0]), _COMBINERS[combiner](~found, rest[0])


def _set_predicate_sources(form: Form) -> tuple[PtxType, ...]:
    third = (PREDICATE,) if form.one_of(tuple(_COMBINERS)) else ()
    return (form.type, form.type, *third)


def _set_results(form: Form) -> tuple[PtxType, ...]:
    """Of two halves, 16 bits each."""
    packed = form.types[-1].lanes > 1 and form.types[0].lanes == 1
    return (TYPES["u16x2"],) if packed else (form.types[0],)


def _set(form: Form, a: Array, b: Array, *rest: Array) -> Array:
    """``set``: all ones (1.0 for a float) where the comparison holds."""
    found = _compared(form, a, b)
    if rest:
        third = rest[0] if not found.ndim or not rest[0].ndim else rest[0][..., None]
        third = third if form.types[-1].lanes > 1 else rest[0]
        found = _COMBINERS[form.one_of(tuple(_COMBINERS))](found, third)
    (result,) = _set_results(form)
    yes = np.array(1 if result.kind == "float" else -1).astype(result.value)
    return np.where(found, yes, np.zeros_like(yes))


def _select_by_sign(form: Form, a: Array, b: Array, c: Array) -> Array:
    return np.where(c >= 0, a, b)


def _logical(function: Callable[..., Array]) -> Row:
    return Row(alike(2), alike(1), plain(function), "integer")


def _select(form: Form, a: Array, b: Array, condition: Array) -> Array:
    return np.where(condition, a, b)


COMPARISONS: dict[str, Row] = {
    "setp": Row(
        _set_predicate_sources,
        lambda form: (PREDICATE, PREDICATE),
        _set_predicate,
        "integer",
        _FLAGS,
    ),
    "set": Row(_set_predicate_sources, _set_results, _set, "integer", _FLAGS),
    "selp": Row(
        lambda form: (form.type, form.type, PREDICATE),
        alike(1),
        _select,
        "move",
    ),
    "slct": Row(
        lambda form: (form.types[0], form.types[0], form.types[1]),
        lambda form: (form.types[0],),
        _select_by_sign,
        "move",
        frozenset({"ftz"}),
    ),
    "testp": Row(
        alike(1),
        lambda form: (PREDICATE,),
        test_property,
        "float",
        frozenset({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}),
    ),
}
PREDICATES: dict[str, Row] = {
    "and": _logical(np.logical_and),
    "or": _logical(np.logical_or),
    "xor": _logical(np.logical_xor),
    "not": Row(alike(1), alike(1), plain(np.logical_not), "integer"),
}
