"""``isspacep``: the space that an address lies in; ``createpolicy``, which changes nothing."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.clusters import RANK_SHIFT
from wia_compiler.simulators.ptx.memory import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_BYTES,
)
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, UnknownForm

_WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}
_EVERY = np.uint64(WINDOW_BYTES)


def _in_window(address: Array, start: int) -> Array:
    return address // _EVERY == np.uint64(start // WINDOW_BYTES)


def _is_in_space(form: Form, address: Array) -> Array:
    space = form.one_of((*_WINDOWS, "global"))
    if space in ("shared", "shared::cta"):
        return address // np.uint64(1 << RANK_SHIFT) == np.uint64(SHARED_WINDOW >> RANK_SHIFT)
    if space != "global":
        return _in_window(address, _WINDOWS[space])
    found = [_in_window(address, start) for start in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW)]
    return ~(found[0] | found[1] | found[2])


def _address(form: Form) -> tuple[PtxType, ...]:
    if not form.one_of((*_WINDOWS, "global")):
        raise UnknownForm(f"{form.instruction.name}: constants lie in device memory here")
    return (TYPES["u64"],)


def _policy_sources(form: Form) -> tuple[PtxType, ...]:
    """What a policy is made of, whatever it is, is not looked at."""
    return (TYPES["b64"],) * (len(form.instruction.operands) - 1)


def _policy(form: Form, *operands: Array) -> Array:
    return np.zeros((), np.uint64)


_LEVELS = frozenset(
    f"L2::evict_{word}" for word in ("last", "normal", "first", "unchanged")
)  # fmt: skip
SPACES: dict[str, Row] = {
    "isspacep": Row(
        _address,
        lambda form: (TYPES["pred"],),
        _is_in_space,
        "integer",
        frozenset({*_WINDOWS, "global", "const"}),
    ),
    "createpolicy": Row(
        _policy_sources,
        lambda form: (TYPES["b64"],),
        _policy,
        "integer",
        _LEVELS | {"fractional", "cvt", "L2"},
    ),
}
