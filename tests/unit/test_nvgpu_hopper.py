"""nvgpu and nvvm ops for capability 9.0: their text, what they refuse, what becomes of them."""

import re

import pytest
from wia_compiler.base.errors import TargetError
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.llvm.emit import emit_llvm
from wia_compiler.passes.llvm.options import nvptx_options
from wia_compiler.passes.llvm.whitelist import check_names
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from xdsl.utils.exceptions import ParseError, VerifyException

GROUP = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 4>"
TILE = "memref<64x64xf16, #gpu.address_space<workgroup>>"
PANELS = "memref<2x64x64xf16, #gpu.address_space<workgroup>>"
SUMS = "!warpgroup.accumulator<fragmented = vector<64x128xf32>>"
TRIPLE = "nvptx64-nvidia-cuda"


def tensor_map(tensor: str = TILE, swizzle: str = "swizzle_128b") -> str:
    return (
        f"!nvgpu.tensormap.descriptor<tensor = {tensor}, swizzle = {swizzle}, "
        "l2promo = l2promo_256b, oob = zero, interleave = none>"
    )


def descriptor(tensor: str) -> str:
    return f"!warpgroup.descriptor<tensor = {tensor}>"


def kernel(body: str) -> str:
    return f"""
func.func @k(%c: memref<64xf32>, %map: {tensor_map()}, %h: memref<64x64xf16>)
    attributes {{gpu.kernel,
    wia.block_size = 128, wia.min_blocks = 1}} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %side = arith.constant 64 : index
  %bytes = arith.constant 8192 : index
  %odd = arith.constant true
  %memory = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
  %a = memref.view %memory[%0][] : memref<?xi8, #gpu.address_space<workgroup>> to {TILE}
  %b = memref.view %memory[%bytes][] : memref<?xi8, #gpu.address_space<workgroup>> to {PANELS}
  %bars = nvgpu.mbarrier.create -> {GROUP}
{body}
  func.return
}}
"""


def map_of(array: str, type: str, box: str) -> str:
    """A tensor map of an array, whose box has those sizes."""
    element = type.rpartition("x")[2]
    return f"""%any = "memref.cast"({array}) : ({type}) -> memref<*x{element}
  %m = nvgpu.tma.create.descriptor %any box[{box}] : memref<*x{element} -> {tensor_map()}"""


WHOLE = kernel(
    f"""
  nvgpu.mbarrier.init %bars[%1], %1 : {GROUP}
  nvvm.fence.mbarrier.init
  nvgpu.tma.prefetch.descriptor %map : {tensor_map()}
  %one = nvvm.elect.sync -> i1
  nvgpu.mbarrier.arrive.expect_tx %bars[%1], %bytes : {GROUP}
  nvgpu.tma.async.load %map[%0, %1], %bars[%1] to %a : {tensor_map()}, {GROUP} -> {TILE}
  nvgpu.mbarrier.try_wait.parity %bars[%1], %odd, %bytes : {GROUP}
  nvvm.setmaxregister increase 232
  %da = "warpgroup.generate.descriptor"(%a) : ({TILE}) -> {descriptor(TILE)}
  %db = "warpgroup.generate.descriptor"(%b) : ({PANELS}) -> {descriptor(PANELS)}
  %z = "warpgroup.mma.init.accumulator"() : () -> {SUMS}
  %d = "warpgroup.mma"(%da, %db, %z) <{{transposeB, waitGroup = 1 : i64}}> :
    ({descriptor(TILE)}, {descriptor(PANELS)}, {SUMS}) -> {SUMS}
  %slots = memref.alloca() : memref<64xf32, #gpu.address_space<private>>
  "warpgroup.mma.store"(%d, %slots) : ({SUMS}, memref<64xf32, #gpu.address_space<private>>) -> ()
  %token = nvgpu.mbarrier.arrive %bars[%0] : {GROUP} -> !nvgpu.mbarrier.token
  %x = memref.load %slots[%1] : memref<64xf32, #gpu.address_space<private>>
  memref.store %x, %c[%1] : memref<64xf32>
  nvvm.setmaxregister decrease 40
"""
)


def test_text_reads_back():
    module = parse_ir(WHOLE)
    module.verify()
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)


def test_instructions():
    llvm = emit_llvm(parse_ir(WHOLE), nvptx_options()).text
    assert 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %map' in llvm
    ptx = (
        shared_worker()
        .generate(CodeRequest(llvm, TRIPLE, "sm_90a", "+ptx80", opt=3, vectorize=False))
        .assembly
    )
    order = [
        r"mbarrier\.init\.shared\.b64 \[bars\+8\]",
        r"fence\.mbarrier_init\.release\.cluster",
        r"prefetch\.tensormap",
        r"elect\.sync",
        r"mbarrier\.arrive\.expect_tx\.shared\.b64 %rd\d+, \[bars\+8\]",
        # The dense dimension, the last of the op's coordinates, comes first.
        r"cp\.async\.bulk\.tensor\.2d\S+ \[%rd\d+\], \[%rd\d+, \{%r\d+, %r\d+\}\], \[bars\+8\]",
        r"mbarrier\.try_wait\.parity\.shared\.b64 %p\d+, \[bars\+8\]",
        r"setmaxnreg\.inc\.sync\.aligned\.u32 232",
        r"wgmma\.fence\.sync\.aligned",
        # Sums of nothing are written by the first step, not read (scale-d).
        r"wgmma\.mma_async\.sync\.aligned\.m64n128k16\.f32\.f16\.f16.*, 0, 1, 1, 0, 1;",
        *[r"wgmma\.mma_async\.sync\.aligned\.m64n128k16\.f32\.f16\.f16.*, 1, 1, 1, 0, 1;"] * 3,
        r"wgmma\.commit_group\.sync\.aligned",
        r"wgmma\.wait_group\.sync\.aligned 1",
        r"wgmma\.wait_group\.sync\.aligned 0",
        r"mbarrier\.arrive\.shared\.b64 %rd\d+, \[bars\]",
        r"setmaxnreg\.dec\.sync\.aligned\.u32 40",
    ]
    at = 0
    for pattern in order:
        found = re.compile(pattern.replace(" ", r"\s+")).search(ptx, at)
        assert found, (pattern, ptx[at:])
        at = found.end()


def test_a_left_operand_in_registers():
    """Four words a step beside the descriptor; they are held until the product is waited for."""
    slots = "memref<64xf32, #gpu.address_space<private>>"
    fragment = "vector<4x2xf16>"
    text = kernel(
        f"""
  %f = arith.constant dense<1.0> : {fragment}
  %db = "warpgroup.generate.descriptor"(%b) : ({PANELS}) -> {descriptor(PANELS)}
  %slots = memref.alloca() : {slots}
  %z = "warpgroup.mma.load"(%slots) : ({slots}) -> {SUMS}
  %d = "warpgroup.mma.registers"(%f, %f, %f, %f, %db, %z) <{{transposeB}}> :
    ({", ".join([fragment] * 4)}, {descriptor(PANELS)}, {SUMS}) -> {SUMS}
  "warpgroup.mma.store"(%d, %slots, %f) <{{waitGroup = 1 : i64}}> : ({SUMS}, {slots}, {fragment})
    -> ()
"""
    )
    llvm = emit_llvm(parse_ir(text), nvptx_options()).text
    (product,) = [line for line in llvm.split("\n") if "wgmma.mma_async" in line]
    assert product.count("k16.f32.f16.f16") == 4 and product.count(", 1, 1, 1, 1;") == 4
    # Behind 64 sums and what they come from: words of the first step, its descriptor, and so on.
    assert "{$128, $129, $130, $131}, $132, 1, 1, 1, 1;" in product
    assert "{$133, $134, $135, $136}, $137, 1, 1, 1, 1;" in product
    (wait,) = [line for line in llvm.split("\n") if "wgmma.wait_group" in line]
    assert "wait_group.sync.aligned 1;" in wait and wait.count(",r,r,r,r") == 1


def test_descriptors_say_where_rows_and_panels_begin():
    """Groups of 8 rows are 1024 bytes apart, panels of 64 rows 8192; swizzle 1 is 128 bytes."""
    llvm = emit_llvm(parse_ir(WHOLE), nvptx_options()).text
    fixed = [int(each) for each in re.findall(r"or disjoint i64 %\S+, (\d+)", llvm)]
    fields = [(each >> 16 & 0x3FFF, each >> 32 & 0x3FFF, each >> 62) for each in fixed]
    assert fields == [(1, 64, 1), (8192 // 16, 64, 1)]


def test_other_architectures_have_none_of_them():
    llvm = emit_llvm(parse_ir(WHOLE), nvptx_options()).text
    check_names(llvm, TRIPLE, "sm_90a")
    with pytest.raises(TargetError, match=r"may not call .*llvm\.nvvm\.wgmma\.commit_group"):
        check_names(llvm, TRIPLE, "sm_90")


NARROW, LONG = TILE.replace("x64x", "x32x"), TILE.replace("x64x", "x128x")
BYTES = "memref<1x64x128xi8, #gpu.address_space<workgroup>>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("nvvm.setmaxregister increase 230", "a multiple of 8 from 24 to 256, found 230"),
        (
            f"nvgpu.tma.async.load %map[%0], %bars[%0] to %a : {tensor_map()}, {GROUP} -> {TILE}",
            "1 coordinates for a box",
        ),
        (
            f"nvgpu.tma.async.load %map[%0, %0], %bars[%0] to %b : {tensor_map()}, {GROUP} "
            f"-> {PANELS}",
            "does not fill",
        ),
        (
            map_of("%c", "memref<64xf32>", "%side, %side"),
            "has another rank than",
        ),
        (map_of("%h", "memref<64x64xf16>", "%side, %1"), "sizes [64, 1] for a box of"),
        (
            "%u = builtin.unrealized_conversion_cast to memref<*xf16>\n"
            f"%m = nvgpu.tma.create.descriptor %u box[%side, %side] : memref<*xf16> -> "
            f"{tensor_map()}",
            "is made of what memref.cast gives",
        ),
        (f"%p = builtin.unrealized_conversion_cast to {tensor_map(LONG)}", "128 at most"),
        (
            f'%d = "warpgroup.generate.descriptor"(%a) : ({TILE}) -> {descriptor(NARROW)}',
            "rows of a wgmma operand are 128 bytes, found 64",
        ),
        (
            '%z = "warpgroup.mma.init.accumulator"() : () -> '
            "!warpgroup.accumulator<fragmented = vector<128x128xf32>>",
            "wgmma accumulates 64 × 8 … 256",
        ),
        (
            f"""%da = "warpgroup.generate.descriptor"(%a) : ({TILE}) -> {descriptor(TILE)}
  %z = "warpgroup.mma.init.accumulator"() : () -> {SUMS}
  %d = "warpgroup.mma"(%da, %da, %z) <{{waitGroup = 1 : i64}}> :
    ({descriptor(TILE)}, {descriptor(TILE)}, {SUMS}) -> {SUMS}""",
            "64 × 64 times 64 × 64 is no",
        ),
        (
            f"""%da = "warpgroup.generate.descriptor"(%a) : ({TILE}) -> {descriptor(BYTES)}
  %z = "warpgroup.mma.init.accumulator"() : () ->
    !warpgroup.accumulator<fragmented = vector<64x128xi32>>
  %d = "warpgroup.mma"(%da, %da, %z) <{{transposeA, transposeB, waitGroup = 1 : i64}}> :
    ({descriptor(BYTES)}, {descriptor(BYTES)},
    !warpgroup.accumulator<fragmented = vector<64x128xi32>>) ->
    !warpgroup.accumulator<fragmented = vector<64x128xi32>>""",
            "128 × 64 times 64 × 128 is no",
        ),
        (
            f"""%f = arith.constant dense<1.0> : vector<4x2xf16>
  %db = "warpgroup.generate.descriptor"(%b) : ({PANELS}) -> {descriptor(PANELS)}
  %z = "warpgroup.mma.init.accumulator"() : () -> {SUMS}
  %d = "warpgroup.mma.registers"(%f, %db, %z) <{{transposeB}}> :
    (vector<4x2xf16>, {descriptor(PANELS)}, {SUMS}) -> {SUMS}""",
            "64 × 16 times 64 × 128 is no",
        ),
        (
            f"""%slots = memref.alloca() : memref<32xf32, #gpu.address_space<private>>
  %d = "warpgroup.mma.load"(%slots) : (memref<32xf32, #gpu.address_space<private>>) -> {SUMS}""",
            "a thread holds 64 elements",
        ),
    ],
)
def test_what_they_refuse(body, message):
    with pytest.raises((VerifyException, ParseError)) as caught:
        parse_ir(kernel(body)).verify()
    assert message in str(caught.value)
