"""The functions that emitted LLVM IR may call, one set of patterns a machine.

Everything here was seen to be selected by LLVM 22: anything else is refused before LLVM sees it,
since an intrinsic that a target cannot select aborts the process, and an unknown one becomes a
call of a function that does not exist.
"""

from __future__ import annotations

import re

from wia_compiler.base.errors import TargetError

_FLOATS = r"(v\d+)?f(16|32|64)"
_INTEGERS = r"(v\d+)?i(1|8|16|32|64)"

_SHARED = (
    rf"llvm\.(fma|sqrt|floor|ceil|trunc|roundeven|fabs|copysign|maximum|minimum|maxnum|minnum)\.{_FLOATS}",
    rf"llvm\.(smin|smax|umin|umax|abs|ctlz|cttz|ctpop)\.{_INTEGERS}",
    rf"llvm\.fpto[su]i\.sat\.{_INTEGERS}\.{_FLOATS}",
    r"llvm\.memcpy\.p\d\.p\d\.i64",
    rf"llvm\.vector\.reduce\.\w+\.({_FLOATS}|{_INTEGERS})",
)
_CPU = (
    *_SHARED,
    rf"llvm\.round\.{_FLOATS}",
    r"llvm\.prefetch\.p0",
    r"llvm\.readcyclecounter",
    r"wia_(parallel|told_to_stop)",
    r"PyGILState_(Ensure|Release)|PyErr_(Occurred|CheckSignals)",
    rf"llvm\.masked\.(load|store)\.({_FLOATS}|{_INTEGERS})\.p0",
    rf"llvm\.masked\.(gather|scatter)\.({_FLOATS}|{_INTEGERS})\.v\d+p0",
    r"llvm\.mem(set\.p0|move\.p0\.p0)\.i64",
    r"llvm\.arithmetic\.fence\.(v\d+)?f32",
    r"fmodf?",
    r"mem(cpy|set|move)",
)
_X86 = (
    *_CPU,
    r"llvm\.x86\.avx512\.permvar\.sf\.512",
    r"llvm\.x86\.avx512\.mask\.scalef\.p[sd]\.(128|256|512)",
    r"llvm\.x86\.avx512\.vpdpbusd\.(128|256|512)",
    r"llvm\.x86\.(sse2\.pmadd\.wd|avx2\.pmadd\.wd|avx512\.pmaddw\.d\.512)",
)
_NVPTX = (
    *_SHARED,
    r"llvm\.(fma|fabs|maximum|minimum)\.(v\d+)?bf16",
    r"llvm\.nvvm\.read\.ptx\.sreg\.(tid|ntid|ctaid|nctaid)\.[xyz]",
    r"llvm\.nvvm\.read\.ptx\.sreg\.(laneid|warpid)",
    r"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.(all|count)",
    r"llvm\.nvvm\.bar\.warp\.sync",
    r"llvm\.nvvm\.f2tf32\.rna",
    r"llvm\.nvvm\.shfl\.sync\.(bfly|down|up|idx)\.(i32|f32)",
    r"llvm\.nvvm\.(ex2|lg2|rsqrt)\.approx(\.ftz)?\.f",
    r"llvm\.nvvm\.cp\.async\.(c[ag]\.shared\.global\.\d+(\.s)?|commit\.group|wait\.group|wait\.all)",
    r"llvm\.nvvm\.ldmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?\.b16\.p3",
    r"llvm\.nvvm\.mma\.m16n8k(8|16|32)\.row\.col\.[\w.]+",
    r"llvm\.nvvm\.mma\.m8n8k16\.row\.col\.s8",
    r"llvm\.nvvm\.redux\.sync\.\w+",
)
_SM_90A = (
    r"llvm\.nvvm\.mbarrier\.init\.shared",
    r"llvm\.nvvm\.mbarrier\.(arrive|arrive\.expect\.tx|try\.wait\.parity)\.scope\.cta\.space\.cta",
    r"llvm\.nvvm\.cp\.async\.bulk\.tensor\.g2s\.tile\.[1-5]d",
    r"llvm\.nvvm\.prefetch\.tensormap\.p0",
    r"llvm\.nvvm\.fence\.mbarrier_init\.release\.cluster",
    r"llvm\.nvvm\.elect\.sync",
    r"llvm\.nvvm\.setmaxnreg\.(inc|dec)\.sync\.aligned\.u32",
    r"llvm\.nvvm\.wgmma\.(fence|commit_group|wait_group)\.sync\.aligned",
)
_PATTERNS = {"x86_64": _X86, "aarch64": _CPU, "nvptx64": _NVPTX, "sm_90a": (*_NVPTX, *_SM_90A)}
_COMPILED = {name: re.compile("|".join(rows)) for name, rows in _PATTERNS.items()}
_DECLARATION = re.compile(r'^declare [^@]*@(?:"([^"]*)"|([^\s(]+))\(', re.MULTILINE)


def allowed_names(triple: str, cpu: str = "") -> re.Pattern[str] | None:
    """The pattern of names that a machine's modules may declare; ``None`` without a list."""
    known = _COMPILED.get(cpu)
    return known if known is not None else _COMPILED.get(triple.split("-", 1)[0])


def check_names(text: str, triple: str, cpu: str = "") -> None:
    """Refuse a module that declares a function outside the machine's list.

    ``cpu`` may have functions of its own: ``sm_90a``.
    """
    allowed = allowed_names(triple, cpu)
    if allowed is None:
        return
    names = (quoted or plain for quoted, plain in _DECLARATION.findall(text))
    wrong = sorted({name for name in names if not allowed.fullmatch(name)})
    if wrong:
        raise TargetError(
            f"LLVM code for {triple} may not call {', '.join(wrong)}: "
            "not among the functions known to be available there"
        )
