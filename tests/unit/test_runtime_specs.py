"""``wia.spec`` and the layouts that are told apart."""

import ml_dtypes
import numpy as np
import pytest
from wia_compiler.base.dtypes import DTYPES, F32
from wia_compiler.base.errors import ArgumentError
from wia_compiler.runtime.specs import normal_strides, spec, spec_of_array


def test_spec_takes_names_numpy_dtypes_and_sizes():
    assert spec((2, 3)) == spec([2, 3], "f32") == spec((np.int64(2), 3), np.float32)
    assert spec(4, "bf16") == spec((4,), ml_dtypes.bfloat16)
    assert spec((), F32).shape == ()
    assert spec((2, 3), "f16").size_bytes == 12
    assert repr(spec((1024, 512), "f32")) == "<wia.spec f32[1024,512]>"
    assert str(spec((2, 3), strides=(1, 2))) == "f32[2,3] strides(1, 2)"


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        (((2, -1),), {}, "negative size"),
        (((2.0,),), {}, "holds 2.0, expected whole numbers"),
        (((True,),), {}, "holds True"),
        (("ab",), {}, "holds 'a'"),
        ((None,), {}, "expected a sequence of whole numbers"),
        (((1,) * 33,), {}, "at most 32"),
        (((2,), "f31"), {}, "did you mean f32?"),
        (((2,), None), {}, "no dtype None"),
        (((2,), "complex64"), {}, "expected one of f64, f32"),
        (((2, 3),), {"strides": (1,)}, "1 strides for a shape of 2 axes"),
    ],
)
def test_spec_refuses(arguments, keywords, message):
    with pytest.raises(ArgumentError) as caught:
        spec(*arguments, **keywords)
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_specs_of_arrays_agree_with_numpy_on_where_elements_lie(dtype):
    base = np.zeros((4, 6, 5), dtype.numpy)
    for view in (base, base.T, base[::2, ::-1], base[:, :1], base[:1, :, :1], base[1:1]):
        found = spec_of_array(view, dtype)
        assert found.shape == view.shape
        if found.strides is None:
            assert view.flags.c_contiguous
            continue
        assert not view.flags.c_contiguous
        for size, stride, step in zip(view.shape, found.strides, view.strides, strict=True):
            assert size == 1 or stride * dtype.size_bytes == step


def test_c_order_is_recognised_whatever_unused_strides_say():
    assert normal_strides((2, 3), (3, 1)) is None
    assert normal_strides((2, 1, 3), (3, 99, 1)) is None
    assert normal_strides((1, 1), (7, -7)) is None
    assert normal_strides((0, 3), (5, 5)) is None
    assert normal_strides((2, 3), (1, 2)) == (1, 2)
    assert normal_strides((2, 3), (0, 1)) == (0, 1)
    assert normal_strides((1, 3), (9, 2)) == (0, 2)
