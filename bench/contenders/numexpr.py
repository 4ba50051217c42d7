"""numexpr: whole expressions in blocks that fit the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from workloads import Inputs, Workload

from contenders import Call, Contender

REQUIRES = ("numexpr", "numpy")

_TEXTS: Mapping[str, str] = {
    # minimum() and maximum() would compute in float64.
    "elementwise": ("(where(where(a*x+b>o,a*x+b,o)*z+c<s, where(a*x+b>o,a*x+b,o)*z+c, s)-x)*q"),
    "transcendental": "h*x*(u+tanh(g*(x+k*x*x*x)))/(u+exp(-x))+exp(-x*x)",
    "sum": "sum(x)",
}
_NUMBERS: Mapping[str, float] = {
    **{"a": 1.7, "b": -0.3, "c": 0.5, "q": 0.25, "o": 0, "s": 6},
    **{"h": 0.5, "u": 1, "g": 0.7978845608028654, "k": 0.044715},
}


class Numexpr(Contender):
    """Expressions on arrays that the caller keeps."""

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        import numexpr

        text = _TEXTS.get(workload.family)
        if text is None:
            return None
        numbers = {name: np.float32(value) for name, value in _NUMBERS.items()}
        names: dict[str, Any] = {**numbers, **inputs}
        if workload.family == "sum":
            numexpr.evaluate(text, local_dict=names, global_dict={})
        else:
            buffer = np.empty_like(inputs["x"])
            numexpr.evaluate(text, local_dict=names, global_dict={}, out=buffer)
        return lambda: numexpr.re_evaluate(local_dict=names)


def make(threads: int) -> Contender:
    import numexpr

    numexpr.set_num_threads(threads)
    return Numexpr(numexpr.__version__, {})
