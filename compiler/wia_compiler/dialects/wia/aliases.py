"""Other names under which an op can be called, as PyTorch and NumPy have them.

Importing this is cheap: it reads no declaration.
"""

from __future__ import annotations

ALIASES: dict[str, str] = {
    "all": "reduce_all",
    "any": "reduce_any",
    "cat": "concat",
    "concatenate": "concat",
    "left_shift": "bitwise_left_shift",
    "maximum": "max",
    "minimum": "min",
    "right_shift": "bitwise_right_shift",
    "scaled_dot_product_attention": "attention",
    "var": "variance",
}
