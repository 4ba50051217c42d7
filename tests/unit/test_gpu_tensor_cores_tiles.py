"""Which tiles products on tensor cores get: they fit, spill nothing, and follow the model."""

import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.matrix_choice import choose_tiles
from wia_compiler.backends.gpu.matrix_model import MatrixProduct, modelled_seconds
from wia_compiler.backends.gpu.matrix_tiles import fault_of
from wia_compiler.backends.gpu.matrix_units import UNITS


@pytest.mark.parametrize(
    "name", [name for name, row in ARCHITECTURES.items() if not row.is_specific]
)
def test_tiles_of_the_model_fit_and_grow_with_the_product(name):
    """For each unit: what is chosen fits, is no slower than others, and follows what is written."""
    architecture = ARCHITECTURES[name]
    for unit in (row for row in UNITS if row.since <= architecture.capability):
        last = 0.0
        for size in (64, 1024, 4096):
            product = MatrixProduct(size, size, size)
            tiles = choose_tiles(product, unit, architecture)
            assert fault_of(tiles, unit, architecture) is None
            seconds = modelled_seconds(product, tiles, unit, architecture)
            assert seconds > last
            last = seconds
            rough = MatrixProduct(size, size, size, in_vectors=False)
            assert choose_tiles(rough, unit, architecture).sums <= 64
        written = {"rows": 64, "columns": 64, "warp_rows": 32}
        tiles = choose_tiles(MatrixProduct(4096, 4096, 4096), unit, architecture, **written)
        assert {field: getattr(tiles, field) for field in written} == written


def test_large_products_of_16_bits_keep_128_sums_a_thread():
    product, unit = MatrixProduct(4096, 4096, 4096), UNITS[0]
    tiles = choose_tiles(product, unit, ARCHITECTURES["sm_80"])
    assert (tiles.warp_rows, tiles.warp_columns) == (64, 64)


@needs_ptxas
@pytest.mark.parametrize(
    "architecture,left,right",
    [("sm_80", "A", "transpose(B)"), ("sm_86", "transpose(A)", "transpose(B)")],
)
def test_large_tiles_spill_nothing(architecture, left, right):
    """Beside 128 sums of a thread there is room for operands, addresses, bias and function."""
    kernel = wia.compile(
        f"""kernel g(input A: tensor, input B: tensor, input C: tensor, output Y: tensor) {{
          Y = relu(matmul({left}, {right}) + C);
        }}"""
    ).g
    specs = [wia.spec(shape, "f16") for shape in ((4096, 4096), (4096, 4096), (4096,))]
    build = kernel.build(*specs, target=f"gpu:{architecture}")
    assert build.stage("schedule").decisions[0].numbers["warp tile"] == "64×64"
    assert build.resources["spill_store_bytes"] == build.resources["stack_bytes"] == 0
