"""LLVM IR text: what each construct becomes, and that it computes what the IR says."""

import re

import ml_dtypes
import numpy as np
import pytest
from llvm_running import elementwise, load_module
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.llvm.emit import EmittedModule, emit_llvm
from wia_compiler.passes.llvm.options import EmitOptions, nvptx_options, x86_options
from wia_compiler.passes.llvm.types import LLVMError
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from xdsl.dialects.builtin import StringAttr, SymbolRefAttr

X86 = x86_options("x86_64-unknown-linux-gnu")
BF16 = ml_dtypes.bfloat16


def emit(text: str, options: EmitOptions = X86, source: Source | None = None) -> EmittedModule:
    return emit_llvm(parse_ir(text), options, source)


def test_strides_are_constants_and_indices_64_bits() -> None:
    text = emit("""
      func.func @f(%a: memref<4x5xf32, strided<[-10, 2]>>, %i: index, %o: memref<f32>) {
        %c3 = arith.constant 3 : index
        %x = memref.load %a[%i, %c3] : memref<4x5xf32, strided<[-10, 2]>>
        memref.store %x, %o[] : memref<f32>
        func.return
      }""").text
    assert "ptr noalias noundef align 4 %a, i64 noundef %i" in text
    assert "%v.0 = mul nsw i64 %i, -10" in text
    assert "%v.1 = add nsw i64 %v.0, 6" in text
    assert "store float %x, ptr %o, align 4" in text


def test_bools_are_bytes_in_memory() -> None:
    run = elementwise("%y = arith.xori %x0, %x1 : i1", ["i1", "i1"], "i1", count=4)
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    np.testing.assert_array_equal(run(x, y, dtype=bool), x ^ y)


def every_f32() -> np.ndarray:
    """A dense sample of all f32 bit patterns, ties of bf16 among them."""
    bits = np.arange(0, 1 << 32, 65_521, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(0, 1 << 16, 7, dtype=np.uint32) << 16) | 0x8000
    return np.concatenate([bits, ties, ties + 1, ties - 1]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("mlir", "kind"), [("bf16", BF16), ("f16", np.float16)])
def test_f32_is_rounded_to_nearest_even(mlir: str, kind: type) -> None:
    x = every_f32()
    run = elementwise(f"%y = arith.truncf %x0 : f32 to {mlir}", ["f32"], mlir, count=x.size)
    with np.errstate(all="ignore"):
        expected = x.astype(kind)
    found = run(x, dtype=kind)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize(("mlir", "kind", "bits"), [("bf16", BF16, 8), ("f16", np.float16, 11)])
def test_f64_is_rounded_once(mlir: str, kind: type, bits: int) -> None:
    """Values just beside a tie, where rounding to f32 first would land on it."""
    random = np.random.default_rng(1)
    mantissa = 1 + (random.integers(0, 2 ** (bits - 1), 3000) + 0.5) * 2.0 ** (1 - bits)
    scale = np.exp2(random.integers(-30, 15, 3000))
    nudge = random.choice([-1, 0, 1], 3000) * 2.0**-50
    x = np.concatenate(
        [(mantissa + nudge) * scale, [np.inf, -np.inf, np.nan, 1e300, -1e-300, 0, -0.0]]
    )
    run = elementwise(f"%y = arith.truncf %x0 : f64 to {mlir}", ["f64"], mlir, count=x.size)
    found = run(x, dtype=kind).astype(np.float64)
    if kind is np.float16:
        with np.errstate(over="ignore"):
            expected = x.astype(kind).astype(np.float64)
        np.testing.assert_array_equal(found, expected)
        return
    finite = slice(0, 3000)
    down, up = (np.nextafter(found[finite].astype(kind), kind(s * np.inf)) for s in (-1, 1))
    error = np.abs(found[finite] - x[finite])
    for other in (down, up):
        assert (error <= np.abs(other.astype(np.float64) - x[finite])).all()
    np.testing.assert_array_equal(found[3000:], [np.inf, -np.inf, np.nan, np.inf, -0.0, 0, -0.0])


@pytest.mark.parametrize("integer", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("float_", ["f32", "f64"])
def test_floats_to_integers_saturate_and_nan_is_zero(integer: str, float_: str) -> None:
    kinds = {"f32": np.float32, "f64": np.float64}
    ends = np.iinfo(f"int{integer[1:]}")
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.9, -3.9, 0.0], kinds[float_])
    run = elementwise(f"%y = arith.fptosi %x0 : {float_} to {integer}", [float_], integer, count=8)
    expected = [0, ends.max, ends.min, ends.max, ends.min, 3, -3, 0]
    assert run(x, dtype=ends.dtype).tolist() == expected


@pytest.mark.parametrize("source", ["i32", "i64"])
def test_integers_to_bf16_are_rounded_once(source: str) -> None:
    kind = np.dtype(f"int{source[1:]}")
    random = np.random.default_rng(2)
    shift = 15 if source == "i32" else 46
    x = (random.integers(128, 256, 2000) * 2 + 1).astype(kind) << shift  # ties of 8 bits
    x = np.concatenate([x, x + 1, x - 1, -x, -x + 1, np.array([0, 1, -3, 300], kind)])
    run = elementwise(f"%y = arith.sitofp %x0 : {source} to bf16", [source], "bf16", count=x.size)
    for value, found in zip(x.tolist(), run(x, dtype=BF16), strict=True):
        below, above = (int(float(np.nextafter(found, BF16(s * np.inf)))) for s in (-1, 1))
        error = abs(int(float(found)) - value)
        assert error <= min(abs(below - value), abs(above - value))


@pytest.mark.parametrize("op", ["maximumf", "minimumf"])
@pytest.mark.parametrize("constant", ["0.0", "-0.0", "1.5", "0xFF800000"])
def test_extremes_with_a_constant_keep_nan_and_order_zeros(op: str, constant: str) -> None:
    values = [np.nan, -0.0, 0.0, 1.0, -1.0, 2.0, np.inf, -np.inf]
    body = f"%c = arith.constant {constant} : f32\n %y = arith.{op} %x0, %c : f32"
    run = elementwise(body, ["f32"], "f32", count=8)
    both = elementwise(f"%y = arith.{op} %x0, %x1 : f32", ["f32", "f32"], "f32", count=8)
    limit = np.float32(-np.inf if constant.startswith("0x") else float(constant))
    x = np.array(values, np.float32)
    found = run(x, dtype=np.float32)
    expected = both(x, np.full(8, limit), dtype=np.float32)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[1:]), np.signbit(expected[1:]))


def test_one_max_instruction_for_a_constant_that_is_no_zero() -> None:
    text = """func.func @f(%x: f32) -> f32 {
      %c = arith.constant 6.0 : f32
      %y = arith.minimumf %x, %c : f32
      func.return %y : f32 }"""
    request = CodeRequest(emit(text).text.replace("internal ", ""), X86.triple, "")
    assert "minss" in shared_worker().generate(request).assembly


def test_remainder_is_exact() -> None:
    x = np.array([5.5, -5.5, 1e30, 7, np.inf, 1, 0.0, -0.0])
    y = np.array([2.0, 2.0, 3.0, -0.3, 1, np.inf, 1, 1])
    run = elementwise("%y = arith.remf %x0, %x1 : f64", ["f64", "f64"], "f64", count=8)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(x, y, dtype=np.float64), np.fmod(x, y))


def test_loops_carry_values_and_branches_give_them() -> None:
    body = """
      %c5 = arith.constant 5 : index
      %zero = arith.constant 0.0 : f32
      %two = arith.constant 2.0 : f32
      %sum = scf.for %k = %c0 to %c5 step %c1 iter_args(%s = %zero) -> (f32) {
        %positive = arith.cmpf ogt, %x0, %zero : f32
        %step = scf.if %positive -> (f32) {
          %double = arith.mulf %x0, %two : f32
          scf.yield %double : f32
        } else {
          scf.yield %x0 : f32
        }
        %next = arith.addf %s, %step : f32
        scf.yield %next : f32
      }
      %y = scf.while (%w = %sum) : (f32) -> f32 {
        %limit = arith.constant 10.0 : f32
        %large = arith.cmpf ogt, %w, %limit : f32
        scf.condition(%large) %w : f32
      } do {
      ^bb0(%v: f32):
        %half = arith.divf %v, %two : f32
        scf.yield %half : f32
      }"""
    x = np.array([3.0, -1.5, 0.5, 100.0], np.float32)
    for opt in (0, 2):
        run = elementwise(body, ["f32"], "f32", count=4, opt=opt)
        assert run(x, dtype=np.float32).tolist() == [7.5, -7.5, 5.0, 7.8125]


def test_fast_math_flags_are_those_the_op_carries() -> None:
    text = emit("""
      func.func @f(%x: f32) -> f32 {
        %a = arith.addf %x, %x fastmath<reassoc,contract> : f32
        %b = arith.mulf %a, %x : f32
        func.return %b : f32
      }""").text
    assert "%a = fadd reassoc contract float %x, %x" in text
    assert "%b = fmul float %a, %x" in text


def test_constants_are_exact() -> None:
    text = emit("""
      func.func @f(%o: memref<4xf32>, %h: memref<f16>) {
        %c = arith.constant 0 : index
        %x = arith.constant 0.1 : f32
        %h0 = arith.constant 1.5 : f16
        memref.store %x, %o[%c] : memref<4xf32>
        memref.store %h0, %h[] : memref<f16>
        func.return
      }""").text
    assert "store float 0x3FB99999A0000000, ptr %o" in text
    assert "store half 0xH3E00, ptr %h" in text


LOCATED = """
  func.func @f(%a: memref<8xf32>) attributes {wia.host} {
    %c = arith.constant 0 : index
    %x = memref.load %a[%c] : memref<8xf32> loc("1|3:5-3:9")
    %y = arith.addf %x, %x : f32 loc(fused["1|3:5-3:9", "2|4:7-4:12"])
    memref.store %y, %a[%c] : memref<8xf32> loc("3|5:1-5:4")
    func.return
  }"""


def test_machine_lines_name_source_lines() -> None:
    emitted = emit(LOCATED, source=Source("…", "cell"))
    assert emitted.spans[(5, 1)] == (Span(5, 1, 5, 4),)
    assert emitted.spans[(3, 5)] == (Span(3, 5, 3, 9), Span(4, 7, 4, 12))
    assert "emissionKind: DebugDirectivesOnly" in emitted.text
    assembly = shared_worker().generate(CodeRequest(emitted.text, X86.triple, "")).assembly
    assert re.search(r'\.file\s+1 "cell"', assembly)
    assert re.search(r"\.loc\s+1 5 1\n\s+movss\s+dword ptr \[\w+\], xmm0", assembly)
    assert ".debug_info" not in assembly


def test_without_a_source_there_is_no_debug_information() -> None:
    assert "!dbg" not in emit(LOCATED).text
    off = x86_options(X86.triple, debug_info=False)
    assert "!dbg" not in emit(LOCATED, off, Source("…", "cell")).text


def test_the_text_is_the_same_each_time() -> None:
    first, second = (emit(LOCATED, source=Source("…", "cell")).text for _ in range(2))
    assert first == second


GPU = """
  func.func @host() attributes {wia.host} { func.return }
  func.func @k(%a: memref<64xf32>) attributes {gpu.kernel, wia.block_size = 64 : i64} {
    %t = gpu.thread_id x
    %s = memref.alloc() : memref<64xf32, "shared">
    %r = memref.alloc() : memref<4xf32, "register">
    %x = memref.load %a[%t] : memref<64xf32>
    memref.store %x, %s[%t] : memref<64xf32, "shared">
    "gpu.barrier"() : () -> ()
    %one = arith.constant 1 : i32
    %width = arith.constant 32 : i32
    %first = arith.constant 0 : index
    %z = memref.load %s[%first] : memref<64xf32, "shared">
    %y, %valid = gpu.shuffle xor %z, %one, %width : f32
    memref.store %y, %a[%t] : memref<64xf32>
    func.return
  }"""


def test_gpu_modules() -> None:
    emitted = emit(GPU, nvptx_options(), Source("…", "cell"))
    assert "@s = internal addrspace(3) global [64 x float] poison" in emitted.text
    assert (
        'define ptx_kernel void @k(ptr addrspace(1) noalias noundef align 4 %a) "nvvm.maxntid"="64"'
        in emitted.text
    )
    assert "@host" not in emitted.text
    request = CodeRequest(emitted.text, nvptx_options().triple, "sm_80")
    ptx = shared_worker().generate(request).assembly
    for part in (".maxntid 64", "shfl.sync.bfly.b32", "bar.sync", "st.shared.b32"):
        assert part in ptx


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @f(%x: f32) -> f32 { %y = math.exp %x : f32\n func.return %y : f32 }",
            "math.exp",
        ),
        ("func.func @f() { %a = memref.alloc() : memref<4xf32>\n func.return }", "main memory"),
        (
            "func.func @f(%a: memref<4xf32, strided<[?]>>, %i: index) {\n"
            "%x = memref.load %a[%i] : memref<4xf32, strided<[?]>>\n func.return }",
            "leaves strides open",
        ),
    ],
)
def test_what_has_no_llvm_form_is_named(text: str, message: str) -> None:
    with pytest.raises(LLVMError, match=message):
        emit(text)


def test_unusual_kernel_names_are_quoted() -> None:
    module = parse_ir("func.func @k(%a: memref<1xf32>) attributes {wia.host} { func.return }")
    (function,) = module.body.block.ops
    function.properties["sym_name"] = type(function.properties["sym_name"])("행렬")  # type: ignore[attr-defined]
    text = emit_llvm(module, X86, Source("…", '"셀"')).text
    assembly = shared_worker().generate(CodeRequest(text, X86.triple, "", outputs=("object",)))
    assert "wia.행렬".encode() in assembly.object


@pytest.mark.parametrize("name", ["memcpy", "rax", "offset", "fmod"])
def test_names_of_the_machine_or_the_library_are_no_danger(name: str) -> None:
    """A function too large to be inlined twice keeps a symbol of its own."""
    steps = "\n".join(
        f"%v{n + 1} = arith.remf %v{n}, %c : f64\n memref.store %v{n + 1}, %b[] : memref<f64>"
        for n in range(60)
    )
    module = parse_ir(f"""
      func.func @host(%a: memref<f64>, %b: memref<f64>) attributes {{wia.host}} {{
        func.call @callee(%a, %b) : (memref<f64>, memref<f64>) -> ()
        func.call @callee(%b, %a) : (memref<f64>, memref<f64>) -> ()
        func.return
      }}
      func.func @callee(%a: memref<f64>, %b: memref<f64>) {{
        %c = arith.constant 3.0 : f64
        %v0 = memref.load %a[] : memref<f64>
        {steps}
        func.return
      }}""")
    for op in module.walk():
        for place in ("sym_name", "callee"):
            attribute = op.properties.get(place)
            if isinstance(attribute, StringAttr) and attribute.data == "callee":
                op.properties[place] = StringAttr(name)
            elif isinstance(attribute, SymbolRefAttr):
                op.properties[place] = SymbolRefAttr(name)
    a, b = np.array(8.0), np.array(0.0)
    load_module(module, "host", 2)((a, b), ())
    assert (a, b) == (2.0, 2.0)


def test_a_function_that_is_called_often_is_compiled_once() -> None:
    nests = "".join(f"func.func @{name}(%a: memref<4xf32>) {{ func.return }}\n" for name in "pq")
    text = emit(f"""
      func.func @host(%a: memref<4xf32>) attributes {{wia.host}} {{
        func.call @p(%a) : (memref<4xf32>) -> ()
        func.call @q(%a) : (memref<4xf32>) -> ()
        func.call @q(%a) : (memref<4xf32>) -> ()
        func.return
      }}
      {nests}""").text
    heads = {head.split("@")[1][0]: head for head in re.findall(r"define .*", text)}
    assert "noinline" in heads["q"]
    assert "noinline" not in heads["p"] and "noinline" not in heads["h"]
