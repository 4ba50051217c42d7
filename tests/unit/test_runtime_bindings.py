"""Free names bound at run time: arrays read at each call, numbers part of the code."""

import logging

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.runtime.bound_values import BoundNumber, bound_numbers

DENSE = (
    "func @dense(%x: tensor) -> tensor { %0 = matmul(%x, %weight) %1 = add(%0, %bias) return %1 }"
)
SCALED = "func @scaled(%x: tensor) -> tensor { %0 = mul(%x, %factor) return %0 }"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


def values():
    return {"weight": np.ones((3, 2), np.float32), "bias": np.float32([1, 2])}


def test_a_call_adds_what_is_bound_and_does_not_take_it():
    bindings = values()
    dense = wia.compile(DENSE, bindings=bindings).dense
    expected = X @ bindings["weight"] + bindings["bias"]
    np.testing.assert_array_equal(dense(X), expected)
    np.testing.assert_array_equal(wia.reference(dense, X), expected)
    np.testing.assert_array_equal(dense.build(X)(X), expected)
    assert [p.name for p in dense.signature.passed] == ["x"]
    assert [spec.name for spec in dense.build(X).inputs] == ["x", "weight", "bias"]
    with pytest.raises(wia.ArgumentError, match=r"got 2 arguments, expected 1 \(x\)"):
        dense(X, bindings["weight"])
    with pytest.raises(wia.ArgumentError, match="no parameter 'weight', expected one of x"):
        dense(X, weight=bindings["weight"])


def test_arrays_are_read_at_each_call():
    bindings = values()
    dense = wia.compile(DENSE, bindings=bindings).dense
    first = dense(X)
    bindings["bias"][:] = 0
    np.testing.assert_array_equal(dense(X), first - [1, 2])
    bindings["weight"] = np.ones((3, 5), np.float32)  # another shape is another build
    bindings["bias"] = np.zeros(5, np.float32)
    assert dense(X).shape == (2, 5)
    del bindings["bias"]
    with pytest.raises(wia.ArgumentError, match=r"dense\(bias\): 'bias' was bound .* and is gone"):
        dense(X)


def test_strided_and_read_only_arrays_can_be_bound():
    bindings = values()
    bindings["weight"] = np.arange(12, dtype=np.float32).reshape(4, 3).T[:, ::2]
    bindings["weight"].flags.writeable = False
    dense = wia.compile(DENSE, bindings=bindings).dense
    np.testing.assert_allclose(dense(X), X @ bindings["weight"] + [1, 2])


def test_the_short_way_of_a_call_reads_them_too():
    bindings = values()
    kernel = wia.compile(DENSE, bindings=bindings).dense
    build = kernel.build(X)
    for call in (kernel, build):
        first = call(X)
        assert len(call._plans) + len(call._fast) == 1, "the second call takes the short way"
        bindings["bias"] = bindings["bias"] + 1
        np.testing.assert_array_equal(call(X), first + 1)
        assert len(call._plans) + len(call._fast) == 1
        bindings["bias"] = [0.0, 0.0]  # no array: the long way
        with pytest.raises(wia.ArgumentError):
            call(X)
        bindings["bias"] = np.zeros(4, np.float32)[::2]
        if call is kernel:
            np.testing.assert_array_equal(call(X), X @ bindings["weight"])
        bindings["bias"] = np.float32([1, 2])


def test_a_tuple_stands_for_its_elements():
    text = "func @norm(%x: tensor) -> tensor { %0 = batch_norm(%x, %params) return %0 }"
    generator = np.random.default_rng(0)
    mean, variance, weight, bias = (
        abs(generator.standard_normal(3)).astype(np.float32) for _ in range(4)
    )
    bindings = {"params": (mean, variance, weight, bias)}
    norm = wia.compile(text, bindings=bindings).norm
    x = generator.standard_normal((2, 3, 1, 1)).astype(np.float32)
    column = (slice(None), None, None)
    expected = (x - mean[column]) / np.sqrt(variance[column] + 1e-5)
    expected = expected * weight[column] + bias[column]
    np.testing.assert_allclose(norm(x), expected, rtol=1e-5, atol=1e-6)
    bindings["params"] = (mean, variance)
    with pytest.raises(wia.ArgumentError, match=r"at least 3 arrays .*, found 2 elements"):
        norm(x)


def test_numbers_are_part_of_the_code_and_of_its_key(caplog):
    caplog.set_level(logging.INFO, "wia")
    keys = []
    for factor in (2.0, 3.0, np.float32(2.0)):
        kernel = wia.compile(SCALED, bindings={"factor": factor, "other": 5}).scaled
        np.testing.assert_array_equal(kernel(X), X * np.float32(factor))
        keys.append(kernel.build(X).cache.key)
    assert keys[0].digest != keys[1].digest and keys[0].digest == keys[2].digest
    assert "binding factor = 2.0" in keys[0].flags
    assert not any("other" in flag for flag in keys[0].flags)


def test_numbers_that_parameters_hide_are_not_part_of_the_key():
    text = "kernel k(input A: tensor, alpha: f32, output B: tensor) { B = A * alpha; }"
    keys = [wia.compile(text, bindings={"alpha": n}).k.build(X).cache.digest for n in (1, 2)]
    assert keys[0] == keys[1]


def test_unbound_names_are_named():
    with pytest.raises(wia.CompileError, match="no value named '%bias'") as caught:
        wia.compile(DENSE, bindings={"weight": X})
    assert "wia.compile(text, bindings={'bias':" in str(caught.value)


def test_bound_numbers_of_tuples():
    found = bound_numbers(["a", "b", "c", "d"], {"a": (1, 2.5, X), "b": True, "c": X, "e": 3})
    assert found == (BoundNumber("a.0", 1), BoundNumber("a.1", 2.5), BoundNumber("b", True))


def test_profiles_and_random_arguments_know_what_is_bound():
    dense = wia.compile(DENSE, bindings=values()).dense
    assert dense.profile(X).time is not None
    assert str(dense.__signature__) == "(x: 'tensor', *, out=None)"


def test_cpp_functions_see_bindings_as_globals():
    text = (
        "void f(const float* x, float* y, int n) {"
        " for (int i = 0; i < n; i++) y[i] = x[i] * k + w[i]; }"
    )
    bindings = {"k": 3, "w": np.float32([1, 2, 3])}
    kernel = wia.compile(text, language="c++", bindings=bindings).f
    np.testing.assert_array_equal(kernel(np.float32([1, 1, 1])), [4, 5, 6])
    bindings["w"] = np.float32([0, 0, 0])
    np.testing.assert_array_equal(kernel(np.float32([1, 1, 1])), [3, 3, 3])
    other = wia.compile(text, language="c++", bindings={**bindings, "k": 4}).f
    assert kernel.build(X[0]).cache.digest != other.build(X[0]).cache.digest


def test_bare_cpp_statements_take_what_is_not_bound():
    text = "for (int i = 0; i < N; i++) squares[i] = i * i;"
    kernel = wia.compile(text, language="c++", bindings={"N": 5}).snippet
    np.testing.assert_array_equal(kernel(), [0, 1, 4, 9, 16])
