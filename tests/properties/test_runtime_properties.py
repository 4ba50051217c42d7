"""Random texts, bytes and views: the runtime answers right or with its own errors."""

import contextlib
import hashlib
import string

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtime_fakes import fake_program
from wia_compiler.base.disk_cache import DiskCache
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import ArgumentError
from wia_compiler.runtime.argument_text import parse_arguments
from wia_compiler.runtime.specs import normal_strides, spec

DTYPE_NAMES = st.sampled_from(sorted(DTYPES))
SHAPES = st.lists(st.integers(0, 10**9), max_size=5)
NAMES = st.text(string.ascii_letters + "_가나", min_size=1, max_size=6)
SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(st.dictionaries(NAMES, st.builds(spec, SHAPES, DTYPE_NAMES), max_size=5))
def test_argument_text_reads_back_specs(specs):
    text = ", ".join(f"{name}={each}" for name, each in specs.items())
    assert parse_arguments(text) == specs


@given(st.text("AB=f32i8,[] 01.-eE+xtru\n@", max_size=30))
def test_argument_text_is_read_or_refused_with_a_caret(text):
    try:
        found = parse_arguments(text)
    except ArgumentError as error:
        assert "^" in str(error) and "help: " in str(error)
    else:
        assert len(found) == text.count("=")


@given(st.text(max_size=40))
def test_any_text_at_all_is_read_or_refused(text):
    with contextlib.suppress(ArgumentError):
        parse_arguments(text)


@SLOW
@given(content=st.binary(min_size=1, max_size=200), seed=st.randoms(use_true_random=False))
def test_damaged_entries_are_never_believed(tmp_path, content, seed):
    cache = DiskCache(tmp_path, 1 << 30)
    digest = hashlib.sha256(content).hexdigest()
    cache.write(digest, {"kernel.o": content, "compiled.json": b"{}"})
    folder = tmp_path / "entries" / digest
    path = seed.choice(sorted(folder.iterdir()))
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[seed.randrange(len(whole))] ^= 1 << seed.randrange(8)
    path.write_bytes(seed.choice([bytes(damaged), whole[: seed.randrange(len(whole))]]))
    assert cache.read(digest) is None
    assert cache.write(digest, {"kernel.o": content})
    assert cache.read(digest) == {"kernel.o": content}
    cache.clear()


@st.composite
def views(draw):
    """A view of a random array: sliced, reversed, transposed, broadcast."""
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    steps = [slice(None, None, draw(st.sampled_from([1, 2, 3, -1, -2]))) for _ in shape]
    array = array[tuple(steps)].transpose(draw(st.permutations(range(len(shape)))))
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(0, 3)), *array.shape))
    return array


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield fake_program(
            "kernel double(input A: tensor, output B: tensor) { B = A + A; }"
            "kernel add(inout D: tensor, input A: tensor) { D = D + A; }"
        )


@SLOW
@given(view=views())
def test_every_view_is_read_and_written_right(kernels, view):
    np.testing.assert_array_equal(kernels.double(view), view + view)
    target = np.zeros(view.shape[::-1], np.float32).T
    assert kernels.double(view, out=target) is target
    np.testing.assert_array_equal(target, view + view)
    kernels.add(target, view)
    np.testing.assert_array_equal(target, view * 3)


@given(view=views())
def test_normal_strides_address_the_same_elements(view):
    steps = tuple(stride // view.itemsize for stride in view.strides)
    normal = normal_strides(view.shape, steps)
    if normal is None:
        assert view.flags.c_contiguous
    elif view.size:
        again = np.lib.stride_tricks.as_strided(
            view, view.shape, [step * view.itemsize for step in normal]
        )
        np.testing.assert_array_equal(again, view)
