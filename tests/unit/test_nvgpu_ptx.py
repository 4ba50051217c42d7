"""nvgpu ops as PTX: assembled for every architecture that has them, and run on the simulator."""

import re

import ml_dtypes
import numpy as np
import pytest
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.emit import refuse_calls
from wia_compiler.backends.gpu.tools import assemble
from wia_compiler.base.errors import TargetError
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.llvm.emit import emit_llvm
from wia_compiler.passes.llvm.nvgpu_support import check_architecture
from wia_compiler.passes.llvm.options import nvptx_options
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from wia_compiler.simulators.ptx import run

RNG = np.random.default_rng(7)
LANES = range(32)


def ptx_of(text, name="sm_80"):
    """The PTX of a module for an architecture."""
    architecture = ARCHITECTURES[name]
    llvm = emit_llvm(parse_ir(text), nvptx_options()).text
    check_architecture(llvm, architecture.capability)
    request = CodeRequest(
        llvm, "nvptx64-nvidia-cuda", name, f"+{architecture.ptx_version}", opt=3, vectorize=False
    )
    ptx = shared_worker().generate(request).assembly
    refuse_calls(ptx)
    return ptx


def kernel(arguments, body):
    """A kernel of one warp; %t is the lane."""
    return (
        f"func.func @k({arguments}) attributes {{gpu.kernel, wia.block_size = 32 : i64}} {{\n"
        f"%t = gpu.thread_id x\n{body}\nfunc.return\n}}"
    )


PRODUCTS = {
    "f16 m16n8k16": ("f16", np.float16, (16, 8, 16), "f32", 80),
    "f16 m16n8k8": ("f16", np.float16, (16, 8, 8), "f32", 75),
    "bf16 m16n8k16": ("bf16", ml_dtypes.bfloat16, (16, 8, 16), "f32", 80),
    "bf16 m16n8k8": ("bf16", ml_dtypes.bfloat16, (16, 8, 8), "f32", 80),
    "tf32 m16n8k8": ("f32", np.float32, (16, 8, 8), "f32", 80),
    "s8 m16n8k32": ("i8", np.int8, (16, 8, 32), "i32", 80),
    "s8 m8n8k16": ("i8", np.int8, (8, 8, 16), "i32", 75),
}


def product_text(element, dtype, shape, total):
    """Each lane loads its part of A, B and C as one vector and stores that of D."""
    rows, columns, depth = shape
    per = 4 // np.dtype(dtype).itemsize
    a, b = (size * depth // 32 // per for size in (rows, columns))
    c = rows // 8
    tf32 = " tf32Enabled" if element == "f32" else ""
    loads = "\n".join(
        f"%{name}f = vector.load %{name}[%t, %z] : memref<32x{n}x{type}>, vector<{n}x{type}>"
        for name, n, type in (("a", a * per, element), ("b", b * per, element), ("c", 2 * c, total))
    )
    extracts = {
        name: ", ".join(f"%{name}{n}" for n in range(count))
        for name, count in (("a", a * per), ("b", b * per), ("c", 2 * c))
    }
    made = []
    for name, registers, width, type in (
        ("a", a, per, element), ("b", b, per, element), ("c", c, 2, total)
    ):  # fmt: skip
        flat = f"vector<{registers * width}x{type}>"
        made += [
            f"%{name}{n} = vector.extract %{name}f[{n}] : {type} from {flat}"
            for n in range(registers * width)
        ]
        made.append(
            f"%{name}m = vector.from_elements {extracts[name]} : vector<{registers}x{width}x{type}>"
        )
    kind = f"vector<{a}x{per}x{element}>, vector<{b}x{per}x{element}>, vector<{c}x2x{total}>"
    made.append(
        f"%d = nvgpu.mma.sync (%am, %bm, %cm) mmaShape = [{rows}, {columns}, {depth}]{tf32} "
        f": ({kind}) -> vector<{c}x2x{total}>"
    )
    for n in range(2 * c):
        made.append(f"%p{n} = arith.constant {n} : index")
        made.append(
            f"%r{n} = vector.extract %d[{n // 2}, {n % 2}] : {total} from vector<{c}x2x{total}>"
        )
        made.append(f"memref.store %r{n}, %o[%t, %p{n}] : memref<32x{2 * c}x{total}>")
    arguments = (
        f"%a: memref<32x{a * per}x{element}>, %b: memref<32x{b * per}x{element}>, "
        f"%c: memref<32x{2 * c}x{total}>, %o: memref<32x{2 * c}x{total}>"
    )
    return kernel(arguments, "\n".join(["%z = arith.constant 0 : index", loads, *made]))


def lanes_of(matrix, per, left):
    """A matrix as each lane holds it, by the figures of the PTX ISA."""
    rows, columns = matrix.shape
    found = []
    for lane in LANES:
        g, t = divmod(lane, 4)
        own = []
        depth = columns if left else rows
        for block in range(depth // (4 * per)):
            for down in [g, g + 8] if left and rows == 16 else [g]:
                for e in range(per):
                    along = block * 4 * per + t * per + e
                    own.append(matrix[down, along] if left else matrix[along, down])
        found.append(own)
    return np.array(found, matrix.dtype)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_numpy(name):
    element, dtype, shape, total, _ = PRODUCTS[name]
    rows, columns, depth = shape
    small = np.dtype(dtype) == np.int8
    a, b = (
        RNG.integers(-128, 128, size).astype(dtype) if small else
        RNG.integers(-8, 9, size).astype(dtype)
        for size in ((rows, depth), (depth, columns))
    )  # fmt: skip
    held = np.int32 if small else np.float32
    c = RNG.integers(-50, 50, (rows, columns)).astype(held)
    per = 4 // np.dtype(dtype).itemsize
    place = [(lane // 4 + 8 * r, 2 * (lane % 4) + e) for lane in LANES
             for r in range(rows // 8) for e in (0, 1)]  # fmt: skip
    ours = np.array([c[each] for each in place], held).reshape(32, -1)
    out = np.zeros_like(ours)
    x, y = lanes_of(a, per, True), lanes_of(b, per, False)
    run(ptx_of(product_text(element, dtype, shape, total)), "k", 1, 32, [x, y, ours, out])
    wide = np.int64 if small else np.float64
    expected = a.astype(wide) @ b.astype(wide) + c
    assert np.array_equal(out.reshape(-1), [expected[each] for each in place])


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_assembled_where_they_are(name, architecture):
    *made, since = PRODUCTS[name]
    if ARCHITECTURES[architecture].capability < since:
        with pytest.raises(TargetError, match=f"needs sm_{since}"):
            ptx_of(product_text(*made), architecture)
        return
    text = ptx_of(product_text(*made), architecture)
    assert re.search(r"mma\.sync\.aligned\." + name.split()[1], text)
    assemble(text, architecture)


def copied(tiles, transpose, copy):
    """A tile of 32 rows goes to shared memory by ``copy``; each lane keeps what ldmatrix gives."""
    turned = str(transpose).lower()
    stores = []
    for n in range(2 * tiles):
        stores += [
            f"%q{n} = arith.constant {n} : index",
            f"%e{n} = vector.extract %m[{n // 2}, {n % 2}] : f16 from vector<{tiles}x2xf16>",
            f"memref.store %e{n}, %o[%t, %q{n}] : memref<32x{2 * tiles}xf16>",
        ]
    return kernel(
        f"%x: memref<32x8xf16>, %o: memref<32x{2 * tiles}xf16>",
        "%z = arith.constant 0 : index\n"
        "%s = memref.alloc() : memref<32x8xf16, #gpu.address_space<workgroup>>\n"
        f'{copy}\n"gpu.barrier"() : () -> ()\n'
        f"%m = nvgpu.ldmatrix %s[%t, %z] numTiles = {tiles} transpose = {turned} "
        f": memref<32x8xf16, #gpu.address_space<workgroup>> -> vector<{tiles}x2xf16>\n"
        + "\n".join(stores),
    )


def async_copy(elements, given="", flags=""):
    """Each lane copies its row in pieces of so many elements."""
    lines = []
    for start in range(0, 8, elements):
        lines += [
            f"%c{start} = arith.constant {start} : index",
            f"%k{start} = nvgpu.device_async_copy %x[%t, %c{start}], %s[%t, %c{start}], {elements}"
            f"{given}{flags} : memref<32x8xf16> to memref<32x8xf16, #gpu.address_space<workgroup>>",
        ]
    lines += [
        "%g = nvgpu.device_async_create_group",
        "nvgpu.device_async_wait %g numGroups = 0",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("tiles", [1, 2, 4])
def test_ldmatrix_gives_rows_and_columns(tiles, transpose):
    x = RNG.standard_normal((32, 8)).astype(np.float16)
    out = np.zeros((32, 2 * tiles), np.float16)
    text = ptx_of(copied(tiles, transpose, async_copy(8, flags=" bypassL1")))
    assert "cp.async.cg.shared.global" in text
    run(text, "k", 1, 32, [x, out])
    for lane in LANES:
        for tile in range(tiles):
            part = x[8 * tile : 8 * tile + 8]
            part = part.T if transpose else part
            pair = part[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert np.array_equal(out[lane, 2 * tile : 2 * tile + 2], pair)


@pytest.mark.parametrize("elements", [2, 4, 8])
def test_asynchronous_copies_fill_up_with_zeros(elements):
    """Each lane is given ``lane mod (elements + 1)`` elements of every piece."""
    x = np.arange(1, 257, dtype=np.float16).reshape(32, 8)
    out = np.zeros((32, 8), np.float16)
    count = (
        f"%n = arith.constant {elements + 1} : index\n%given = arith.remui %t, %n : index\n"
        + async_copy(elements, ", %given")
    )
    run(ptx_of(copied(4, False, count)), "k", 1, 32, [x, out])
    kept = np.arange(8) % elements < (np.arange(32) % (elements + 1))[:, None]
    tile = np.where(kept, x, 0).astype(np.float16)
    for lane in LANES:
        rows = tile.reshape(4, 8, 8)[:, lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
        assert np.array_equal(out[lane], rows.reshape(-1))


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_copies_and_ldmatrix_are_assembled_where_they_are(architecture):
    text = copied(4, True, async_copy(8))
    if architecture == "sm_75":
        with pytest.raises(TargetError, match=r"asynchronous copies .* needs sm_80"):
            ptx_of(text, architecture)
        through_registers = (
            "%v = vector.load %x[%t, %z] : memref<32x8xf16>, vector<8xf16>\n"
            "vector.store %v, %s[%t, %z] "
            ": memref<32x8xf16, #gpu.address_space<workgroup>>, vector<8xf16>"
        )
        text = copied(4, True, through_registers)
    assemble(ptx_of(text, architecture), architecture)
