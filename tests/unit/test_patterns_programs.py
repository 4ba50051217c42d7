"""``pattern`` blocks in programs: the chapter's as written, what the record and the cache say."""

from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia

CHAPTER = """
pattern ConvBiasRelu {
    match:
        %conv = conv2d(%input, %weight)
        %bias_add = add(%conv, %bias)
        %output = relu(%bias_add)

    rewrite:
        %output = fused_conv_bias_relu(%input, %weight, %bias)
}
"""
LAYER = """
kernel layer(input x: tensor, input w: tensor, input b: tensor, output y: tensor) {
    y = relu(conv2d(x, w) + b);
}
"""


def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    shapes = ((1, 3, 9, 9), (4, 3, 3, 3), (4, 1, 1))
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("target", ["cpu", "gpu:sm_90"])
def test_the_chapters_pattern_fires(target: str) -> None:
    program = wia.compile(CHAPTER + LAYER)
    build = program.layer.build(*arrays(), target=target)
    names = [stage.name for stage in build.stages]
    assert names[names.index("patterns") - 1] == "infer-shapes"
    assert "wia.fused @fused_conv_bias_relu" in build.stage("patterns").text
    (decision,) = build.stage("patterns").decisions
    assert decision.candidate == "ConvBiasRelu: conv2d, add, relu"
    assert decision.taken
    before = build.stage("infer-shapes")
    assert [before.op(each).label for each in decision.subjects] == ["conv2d", "add", "relu"]
    (kernel,) = [row for row in build.stage("patterns").ops if row.label == "fused_conv_bias_relu"]
    assert set(kernel.origins) == set(decision.subjects)
    if target == "cpu":
        expected = np.asarray(wia.reference(program.layer, *arrays()))
        np.testing.assert_allclose(build(*arrays()), expected, rtol=1e-5, atol=1e-5)
    else:
        assert build.assembly("ptx").count(".entry") == 1


def test_without_patterns_there_is_no_such_stage() -> None:
    build = wia.compile(LAYER).layer.build(*arrays())
    assert "patterns" not in [stage.name for stage in build.stages]


def test_a_pattern_is_part_of_the_cache_key() -> None:
    plain = wia.compile(LAYER).layer.build(*arrays())
    fused = wia.compile(LAYER + CHAPTER.replace("fused_conv", "fused_other"))
    renamed = fused.layer.build(*arrays())
    again = wia.compile(LAYER + CHAPTER).layer.build(*arrays())
    digests = {each.cache.digest for each in (plain, renamed, again)}
    assert len(digests) == 3


def test_a_rewrite_of_ones_own_runs() -> None:
    text = """
    pattern Reciprocal {
        match:
            %root = sqrt(%y)
            %out = div(%x, %root)
        rewrite:
            %r = rsqrt(%y)
            %out = mul(%x, %r)
    }
    kernel scale(input a: tensor, input b: tensor, output c: tensor) {
        c = exp(a) / sqrt(b);
    }
    """
    program = wia.compile(text)
    a = np.linspace(-3, 3, 17, dtype=np.float32)
    b = np.linspace(0.1, 9, 17, dtype=np.float32)
    build = program.scale.build(a, b)
    assert "wia.rsqrt" in build.stage("patterns").text
    assert "wia.sqrt" not in build.stage("patterns").text
    np.testing.assert_allclose(build(a, b), np.exp(a) / np.sqrt(b), rtol=1e-5)


def test_an_unsound_pattern_points_at_its_name_with_the_counterexample() -> None:
    text = """
pattern Negate {
    match:
        %d = sub(%x, %y)
        %out = neg(%d)
    rewrite:
        %out = sub(%y, %x)
}
kernel k(input a: tensor, input b: tensor, output c: tensor) { c = -(a - b); }
"""
    program = wia.compile(text)
    a = np.ones(3, np.float32)
    with pytest.raises(wia.CompileError) as caught:
        program.k.build(a, a)
    expected = """\
error: pattern 'Negate' cannot be used: its rewrite computes something else: with %x = 0.0, \
%y = 0.0 its match (neg) gives -0.0, its rewrite (sub) 0.0
  --> <wia>:2:9
   2 | pattern Negate {
     |         ^^^^^^
  help: tried through the reference on %x: tensor<3xf32>, %y: tensor<3xf32>; write a rewrite that \
gives the same for every input, or remove the pattern"""
    assert str(caught.value) == expected
