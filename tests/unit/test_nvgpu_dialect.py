"""The nvgpu ops: printed as MLIR prints them, read back, and refused where they cannot be."""

import re

import pytest
from wia_compiler.dialects.text import parse_ir, print_ir
from xdsl.utils.exceptions import VerifyException

_TEXTS = [
    "%r = nvgpu.ldmatrix %tile[%i, %j] numTiles = 4 transpose = false "
    ": memref<64x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>",
    "%r = nvgpu.ldmatrix %tile[%i, %j] numTiles = 2 transpose = true "
    ": memref<64x32xf16, #gpu.address_space<workgroup>> -> vector<2x2xf16>",
    "%r = nvgpu.device_async_copy %x[%i, %j], %tile[%j, %i], 8 "
    ": memref<100x100xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>",
    "%r = nvgpu.device_async_copy %x[%i, %j], %tile[%j, %i], 8, %i bypassL1 "
    ": memref<100x100xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>",
    "%r = nvgpu.device_async_create_group {}\n    %q = arith.constant 0 : index",
    "%r = nvvm.convert.float.to.tf32 %s rnd = <rna>",
]


def function(body):
    return parse_ir(
        "func.func @f(%x: memref<100x100xf16>, %tile: memref<64x32xf16, "
        "#gpu.address_space<workgroup>>, %i: index, %j: index, "
        "%a: vector<4x2xf16>, %b: vector<2x2xf16>, %c: vector<2x2xf32>, "
        f"%s: f32, %w: vector<4x1xf32>, %v: vector<2x1xf32>) {{\n{body}\nfunc.return\n}}"
    )


@pytest.mark.parametrize("text", _TEXTS)
def test_ops_are_printed_as_they_are_read(text):
    module = function(text)
    module.verify()
    assert text in print_ir(module)
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)


@pytest.mark.parametrize(
    "text",
    [
        "%r = nvgpu.mma.sync (%a, %b, %c) mmaShape = [16, 8, 16] "
        ": (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>",
        "%r = nvgpu.mma.sync (%w, %v, %c) mmaShape = [16, 8, 8] tf32Enabled "
        ": (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>",
        "%r = vector.from_elements %s, %s, %s, %s : vector<2x2xf32>",
        "%r = vector.extract_strided_slice %a offsets = [2], sizes = [2], strides = [1] "
        ": vector<4x2xf16> to vector<2x2xf16>",
    ],
)
def test_products_and_vectors_are_printed_as_they_are_read(text):
    module = function(text)
    module.verify()
    assert text in print_ir(module)


def test_groups_are_waited_for():
    text = (
        "%t = nvgpu.device_async_copy %x[%i, %j], %tile[%i, %j], 2 "
        ": memref<100x100xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>\n"
        "%g = nvgpu.device_async_create_group %t\n"
        "nvgpu.device_async_wait %g numGroups = 1\nnvgpu.device_async_wait %g"
    )
    module = function(text)
    module.verify()
    assert all(line in print_ir(module) for line in text.split("\n"))


@pytest.mark.parametrize(
    "text,reason",
    [
        (
            "%r = nvgpu.ldmatrix %x[%i, %j] numTiles = 4 transpose = false "
            ": memref<100x100xf16> -> vector<4x2xf16>",
            "ldmatrix reads shared memory",
        ),
        (
            "%r = nvgpu.ldmatrix %tile[%i, %j] numTiles = 3 transpose = false "
            ": memref<64x32xf16, #gpu.address_space<workgroup>> -> vector<3x2xf16>",
            "1, 2 or 4 tiles, not 3",
        ),
        (
            "%r = nvgpu.ldmatrix %tile[%i] numTiles = 4 transpose = false "
            ": memref<64x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>",
            "1 indices for",
        ),
        (
            "%r = nvgpu.mma.sync (%a, %b, %c) mmaShape = [16, 8, 8] "
            ": (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>",
            "a lane's part of 16 × 8 × 8 is vector<2x2xf16>, vector<1x2xf16>, vector<2x2xf32>",
        ),
        (
            "%r = nvgpu.mma.sync (%w, %v, %c) mmaShape = [16, 8, 8] "
            ": (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>",
            "multiplied as tf32, which tf32Enabled says",
        ),
        (
            "%r = nvgpu.device_async_copy %x[%i, %j], %tile[%i, %j], 1 "
            ": memref<100x100xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>",
            "4, 8 or 16 bytes, not 2",
        ),
        (
            "%r = nvgpu.device_async_copy %x[%i, %j], %tile[%i, %j], 4 bypassL1 "
            ": memref<100x100xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>",
            "copies of 16 bytes bypass L1",
        ),
        (
            "%r = nvgpu.device_async_copy %tile[%i, %j], %x[%i, %j], 8 "
            ": memref<64x32xf16, #gpu.address_space<workgroup>> to memref<100x100xf16>",
            "an asynchronous copy goes to shared memory",
        ),
        ("%r = vector.from_elements %s : vector<2x2xf32>", "1 elements for vector<2x2xf32>"),
        (
            "%r = vector.extract_strided_slice %a offsets = [3], sizes = [2], strides = [1] "
            ": vector<4x2xf16> to vector<2x2xf16>",
            "rows 3 … 4 of vector<4x2xf16>",
        ),
    ],
)
def test_what_the_hardware_has_not_is_refused(text, reason):
    with pytest.raises(VerifyException, match=re.escape(reason)):
        function(text).verify()
