"""Groups that repeat: planned once, called on the arrays of each, found from every caller."""

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.passes.nests import host

LAYERS = """kernel net(input x: tensor, input w: tensor, input v: tensor, output y: tensor) {
    a = relu(x @ w);
    b = relu(a @ v);
    c = relu(b @ b);
    d = softmax(c, axis=1) / 0.0;
    e = softmax(c @ w, axis=1) / -0.0;
    f = relu(transpose(a, 0, 1) @ w);
    y = relu(b @ w) + relu(c @ v) + f + where(d > e, 1.0, 2.0);
}"""


@pytest.fixture
def planned(monkeypatch):
    """The names of the groups that were planned, in order."""
    names: list[str] = []
    plan = host.HostLowering._plans

    def counting(self, group):
        names.append(group.name)
        return plan(self, group)

    monkeypatch.setattr(host.HostLowering, "_plans", counting)
    return names


def arrays(size=7):
    generator = np.random.default_rng(size)
    return [generator.standard_normal((size, size)).astype(np.float32) for _ in range(3)]


def test_results_are_those_of_each_group(planned, tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    kernel = wia.compile(LAYERS).net
    x, w, v = arrays()
    np.testing.assert_allclose(
        kernel(x, w, v), wia.reference(kernel, x, w, v), rtol=1e-4, atol=1e-5
    )


def test_equal_layers_are_planned_once(planned, tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    steps = "\n".join(f"x{n + 1} = relu(x{n} @ w);" for n in range(8))
    text = f"kernel net(input x0: tensor, input w: tensor, output y: tensor) {{ {steps} y = x8; }}"
    build = wia.compile(text).net.build(*arrays()[:2])
    assert build.executable
    assert len(planned) == 1
    loops = build.stage("loops")
    (shared,) = [each for each in loops.decisions if each.kind == "share"]
    assert shared.numbers == {"calls": 8} and len(shared.subjects) == 8
    (nest,) = [row for row in loops.ops if row.name == "func.func" and row.label != "net"]
    assert len(nest.origins) == 8


def test_arrays_that_are_one_and_arrays_that_are_two_are_told_apart(planned, tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    text = """kernel k(input x: tensor, input w: tensor, output p: tensor, output q: tensor) {
        p = x @ x; q = x @ w;
    }"""
    kernel = wia.compile(text).k
    x, w, _ = arrays(5)
    p, q = kernel(x, w)
    np.testing.assert_allclose(p, x @ x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(q, x @ w, rtol=1e-5, atol=1e-5)
    assert len(planned) == 2


def test_numbers_are_compared_to_the_last_bit(planned, tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    text = """kernel k(input x: tensor, input w: tensor, output p: tensor, output q: tensor) {
        p = (x @ x) / 0.0; q = (w @ w) / -0.0;
    }"""
    x = np.ones((3, 3), np.float32)
    p, q = wia.compile(text).k(x, x.copy())
    assert (p == np.inf).all() and (q == -np.inf).all()
