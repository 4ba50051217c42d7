"""Functions that compiled code calls: the rules of ``counting``, for one access of a warp.

``units`` are the sectors or words that the lanes touch (32 × i32), ``mask`` says which lanes do.
Both take one turn for each different unit, since that clears all lanes that share it.
"""

from __future__ import annotations

from collections.abc import Iterator

from wia_compiler.simulators.ptx.counting import BANKS, SECTOR_BYTES
from wia_compiler.simulators.ptx.threads import WARP

DECLARATIONS = {
    "llvm.cttz.i32": "declare i32 @llvm.cttz.i32(i32, i1)",
    "llvm.ctpop.i32": "declare i32 @llvm.ctpop.i32(i32)",
    "llvm.umax.i64": "declare i64 @llvm.umax.i64(i64, i64)",
}

_SHARERS = """
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %place = getelementptr i32, ptr %units, i32 %lane
  %unit = load i32, ptr %place, align 4
  %first = insertelement <32 x i32> poison, i32 %unit, i64 0
  %spread = shufflevector <32 x i32> %first, <32 x i32> poison, <32 x i32> zeroinitializer
  %all = load <32 x i32>, ptr %units, align 4
  %same = icmp eq <32 x i32> %all, %spread
  %sharers = bitcast <32 x i1> %same to i32
  %others = xor i32 %sharers, -1
  %next = and i32 %rest, %others"""
"""The lanes left over once all that share the unit of the first one are taken away."""

_COUNT = """
; Both rules see distances between units alone, and loops repeat their patterns: the last one of an
; instruction, and what it counted for, are kept behind its numbers.
define internal void @NAME(ptr %slot, ptr %units, i32 %maskARGUMENT) noinline {
entry:
  %none = icmp eq i32 %mask, 0
  br i1 %none, label %end, label %some
some:
  %all = load <32 x i32>, ptr %units, align 4
  %unit = extractelement <32 x i32> %all, i64 0
  %lead = insertelement <32 x i32> poison, i32 %unit, i64 0
  %leads = shufflevector <32 x i32> %lead, <32 x i32> poison, <32 x i32> zeroinitializer
  %distances = sub <32 x i32> %all, %leads
  %kept_place = getelementptr i8, ptr %slot, i64 128
  %kept = load <32 x i32>, ptr %kept_place, align 4
  %differ = icmp ne <32 x i32> %distances, %kept
  %differing = bitcast <32 x i1> %differ to i32
  %mask_place = getelementptr i8, ptr %slot, i64 64
  %kept_mask = load i32, ptr %mask_place, align 4
  %other = xor i32 %kept_mask, %mask
  %changed = or i32 %other, %differing
  %hit = icmp eq i32 %changed, 0
  br i1 %hit, label %add, label %count
count:
BODY
  store <32 x i32> %distances, ptr %kept_place, align 4
  store i32 %mask, ptr %mask_place, align 4
  call void @put(ptr %slot, i64 9, i64 %taken)
  call void @put(ptr %slot, i64 10, i64 %least)
  br label %add
add:
  %taken_now = call i64 @get(ptr %slot, i64 9)
  %least_now = call i64 @get(ptr %slot, i64 10)
  call void @add_to(ptr %slot, i64 0, i64 1)
  call void @add_to(ptr %slot, i64 FIRST, i64 %taken_now)
  call void @add_to(ptr %slot, i64 SECOND, i64 %least_now)
  br label %end
end:
  ret void
}
"""

_NUMBERS = """
define internal i64 @get(ptr %slot, i64 %number) alwaysinline {
  %place = getelementptr i64, ptr %slot, i64 %number
  %held = load i64, ptr %place, align 8
  ret i64 %held
}
define internal void @put(ptr %slot, i64 %number, i64 %amount) alwaysinline {
  %place = getelementptr i64, ptr %slot, i64 %number
  store i64 %amount, ptr %place, align 8
  ret void
}
define internal void @add_to(ptr %slot, i64 %number, i64 %amount) alwaysinline {
  %old = call i64 @get(ptr %slot, i64 %number)
  %new = add i64 %old, %amount
  call void @put(ptr %slot, i64 %number, i64 %new)
  ret void
}
"""

_DISTINCT = f"""
; How many different units the lanes of a mask touch.
define internal i64 @distinct(ptr %units, i32 %mask) noinline {{
entry:
  br label %turn
turn:
  %rest = phi i32 [ %mask, %entry ], [ %next, %turn ]
  %found = phi i64 [ 0, %entry ], [ %more, %turn ]{_SHARERS}
  %more = add i64 %found, 1
  %over = icmp eq i32 %next, 0
  br i1 %over, label %end, label %turn
end:
  ret i64 %more
}}
"""

_SECTORS = f"""
  %taken = call i64 @distinct(ptr %units, i32 %mask)
  %lanes = call i32 @llvm.ctpop.i32(i32 %mask)
  %wide = zext i32 %lanes to i64
  %bytes = mul i64 %wide, %size
  %rounded = add i64 %bytes, {SECTOR_BYTES - 1}
  %least = udiv i64 %rounded, {SECTOR_BYTES}"""

_PASSES = f"""
; Passes over the banks that words take: as many as the most wanted bank has different ones.
define internal i64 @bank_passes(ptr %units, i32 %mask) noinline {{
entry:
  %banks = alloca [{BANKS} x i8], align 32
  store <{BANKS} x i8> zeroinitializer, ptr %banks, align 32
  %none = icmp eq i32 %mask, 0
  br i1 %none, label %end, label %turn
turn:
  %rest = phi i32 [ %mask, %entry ], [ %next, %turn ]
  %most = phi i64 [ 0, %entry ], [ %larger, %turn ]{_SHARERS}
  %bank = and i32 %unit, {BANKS - 1}
  %counter = getelementptr i8, ptr %banks, i32 %bank
  %before = load i8, ptr %counter, align 1
  %after = add i8 %before, 1
  store i8 %after, ptr %counter, align 1
  %count = zext i8 %after to i64
  %larger = call i64 @llvm.umax.i64(i64 %most, i64 %count)
  %over = icmp eq i32 %next, 0
  br i1 %over, label %end, label %turn
end:
  %result = phi i64 [ 0, %entry ], [ %larger, %turn ]
  ret i64 %result
}}
"""


def support_text() -> str:
    """The functions; ``DECLARATIONS`` are what they call."""
    sectors = _count("count_sectors", ", i64 %size", _SECTORS, 1)
    wavefronts = [
        _count(f"count_wavefronts_{words}", "", "\n".join(_phases(words)), 3) for words in (1, 2, 4)
    ]
    return "\n".join((_NUMBERS, _DISTINCT, _PASSES, sectors, *wavefronts))


def _count(name: str, argument: str, body: str, first: int) -> str:
    """A function that counts one access, by a body that sets ``%taken`` and ``%least``."""
    text = _COUNT.replace("NAME", name).replace("ARGUMENT", argument).replace("BODY", body)
    return text.replace("FIRST", str(first)).replace("SECOND", str(first + 1))


def _phases(words: int) -> Iterator[str]:
    """Lanes of so many words are taken in as many phases of 32 words."""
    yield f"  %spread = alloca [{WARP} x i32], align 64"
    yield "  %lanes = bitcast i32 %mask to <32 x i1>"
    taken, least = ["0"], ["0"]
    for phase in range(words):
        first = phase * WARP // words
        order = ", ".join(f"i32 {first + place // words}" for place in range(WARP))
        added = ", ".join(f"i32 {place % words}" for place in range(WARP))
        mask = f"<32 x i32> <{order}>"
        yield f"  %own{phase} = shufflevector <32 x i32> %all, <32 x i32> poison, {mask}"
        yield f"  %word{phase} = add <32 x i32> %own{phase}, <{added}>"
        yield f"  store <32 x i32> %word{phase}, ptr %spread, align 64"
        yield f"  %on{phase} = shufflevector <32 x i1> %lanes, <32 x i1> poison, {mask}"
        yield f"  %bits{phase} = bitcast <32 x i1> %on{phase} to i32"
        yield f"  %passes{phase} = call i64 @bank_passes(ptr %spread, i32 %bits{phase})"
        yield f"  %some{phase} = icmp ne i64 %passes{phase}, 0"
        yield f"  %one{phase} = zext i1 %some{phase} to i64"
        last = phase == words - 1
        sums = ("%taken", "%least") if last else (f"%taken{phase}", f"%least{phase}")
        yield f"  {sums[0]} = add i64 {taken[-1]}, %passes{phase}"
        yield f"  {sums[1]} = add i64 {least[-1]}, %one{phase}"
        taken.append(sums[0])
        least.append(sums[1])
