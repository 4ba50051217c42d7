"""``keep``: what several passes over a row compute is computed once and kept."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, share_values
from wia_compiler.passes.tile_rewrites.sharing import Reads

SYNTAX = "keep | keep converted | keep all"

_READS: dict[str, Reads] = {"converted": "converted", "all": "all"}


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Keep values of a row in a buffer between the passes over it.

    ``keep``::

        reduce s[i] += exp(x[i, j] - m[i])             reduce s[i] += e[i, j] = exp(x[i, j] - m[i])
        map y[i, j] = exp(x[i, j] - m[i]) / s[i]   →   map y[i, j] = e[i, j] / s[i]

    ``keep`` alone keeps what costs a function (exp, log, sqrt …); ``keep converted`` also what the
    passes compute alike of an element that they read (a cast, a difference); ``keep all`` the
    elements themselves. Legal where the passes walk the same points side by side, what they read is
    not written between them, and the row has at most as many elements as the target keeps.
    """
    words = [entry.name for entry in directive.entries]
    if len(words) > 1 or any(word not in _READS for word in words):
        raise IllegalRewrite(f"keep does not know {', '.join(map(str, words))}", hint=SYNTAX)
    reads = _READS[words[0]] if words and words[0] else "none"
    most = nest.facts.kept_row_elements
    if not share_values(nest.function, "register", most, reads=reads):
        raise IllegalRewrite(
            f"no value of up to {most} elements is computed by several passes over a row",
            hint="leave keep away, or tile the row so that it fits",
        )
