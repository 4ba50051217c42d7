"""Maps walk along memory: values of a channel do not turn them to the channels."""

import re

import pytest
import wia_compiler as wia


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_what_follows_a_convolution_is_vectors_along_the_image(count: int) -> None:
    names = [f"c{n}" for n in range(count)]
    listed = "".join(f"input {name}: tensor, " for name in names)
    followed = "".join(f" * {name}" for name in names)
    text = f"kernel k(input x: tensor, input w: tensor, {listed}output y: tensor)"
    program = wia.compile(f"{text} {{ y = conv2d(x, w, padding=1){followed}; }}")
    channels = [wia.spec((32, 1, 1), "f32")] * count
    build = program.k.build(
        wia.spec((1, 8, 32, 32), "f32"), wia.spec((32, 8, 3, 3), "f32"), *channels
    )
    products = re.findall(r"arith\.mulf .* : (\S+)", build.stage("lower").text)
    assert products
    assert all(type.startswith("vector<") for type in products)
