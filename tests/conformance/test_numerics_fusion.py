"""What fusion and patterns may change of a result, and that they say so."""

import numpy as np
import pytest
import wia_compiler as wia

FOLDING = """
kernel folds(input x: tensor, input w: tensor, input m: tensor, input v: tensor, output y: tensor) {
    y = batch_norm(conv2d(x, w, groups=4), m, v);
}
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_round_folded(dtype: type) -> None:
    random = np.random.default_rng(5)
    shapes = ((1, 4, 60, 60), (4, 1, 3, 3), (4,), (4,))
    x, w, m, v = (np.abs(random.normal(size=shape)).astype(dtype) for shape in shapes)
    program = wia.compile(FOLDING)
    build = program.folds.build(x, w, m, v + dtype(0.5))
    (decision,) = [each for each in build.trace.decisions if each.kind == "fold"]
    assert decision.taken == (dtype is not np.float16)
    if not decision.taken:
        return
    assert "are rounded before they are summed" in decision.reason
    expected = np.asarray(wia.reference(program.folds, x, w, m, v + dtype(0.5)))
    # 9 products a sum; all are positive, so that Σ|xᵢ| is the sum itself, and root scales it.
    root = 1 / np.sqrt(v.astype(np.float64) + 0.5).reshape(1, 4, 1, 1)
    sums = np.abs(expected) + np.abs(m.astype(np.float64).reshape(1, 4, 1, 1) * root)
    bound = (9 + 4) * np.finfo(dtype).eps * sums
    assert np.all(np.abs(build(x, w, m, v + dtype(0.5)) - expected) <= bound)


def test_round_patterns() -> None:
    pattern = """
    pattern Root {{ match: %r = sqrt(%y)
                          %out = div(%x, %r)
                    rewrite: {rewrite} }}
    kernel k(input x: tensor, input y: tensor, output z: tensor) {{ z = x / sqrt(y); }}
    """
    near = "%i = rsqrt(%y)\n %out = mul(%x, %i)"
    far = "%i = rsqrt(%y)\n %s = mul(%x, %i)\n %out = mul(%s, 1.0001)"
    x, y = np.linspace(-4, 4, 127, dtype=np.float32), np.linspace(0, 9, 127, dtype=np.float32)
    build = wia.compile(pattern.format(rewrite=near)).k.build(x, y)
    with np.errstate(all="ignore"):
        expected = x / np.sqrt(y)
        found = build(x, y)
        # div and sqrt round once each, mul once, rsqrt is a function: 2 units.
        close = np.abs(found - expected) <= 5 * np.spacing(np.abs(expected))
    assert np.all(close | (found == expected) | (np.isnan(found) & np.isnan(expected)))
    with pytest.raises(wia.CompileError, match="its rewrite computes something else"):
        wia.compile(pattern.format(rewrite=far)).k.build(x, y)
