# %% [markdown]
# # One line at a time: schedules
#
# **The wish.** Three nested loops multiply two matrices, and NumPy does it many times faster. The
# difference is no secret: blocks that fit a cache, sums that stay in registers, lanes of a vector.
# But written out by hand it is a page of loops in which the product can no longer be seen. Here the
# three loops stay as they are, and each of these steps is one line beside them, which you can
# change, take away and measure.

# %%
import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["WIA_NUM_THREADS"] = "1"  # one core for everyone

# %%
# %load_ext wia_notebook

# %%
import time

import numpy as np
import wia_compiler as wia

random = np.random.default_rng(0)
A, B = random.standard_normal((2, 256, 256)).astype(np.float32)
a, b = random.standard_normal((2, 1 << 14)).astype(np.float32)

# %% [markdown]
# ## The loops as they are
#
# An empty `schedule` block takes away everything that the compiler would choose by itself. In the
# explorer, compare the stages **loops** and **schedule**: nothing has changed.

# %%
# %%wia --run matmul(A, B)
# kernel matmul(
#     input A: tensor<M, K, f32>,
#     input B: tensor<K, N, f32>,
#     output C: tensor<M, N, f32>
# ) {
#     for i in 0..M {
#         for j in 0..N {
#             let sum = 0.0;
#             for k in 0..K {
#                 sum += A[i, k] * B[k, j];
#             }
#             C[i, j] = sum;
#         }
#     }
# }
# schedule matmul {
# }

# %% [markdown]
# ## A line that tiles
#
# Now the same kernel with its loops in blocks. `i.0`, `j.0` and `k.0` walk the blocks, `i.1` and
# `j.1` the elements of one; where the sum over `k` is cut, it waits in `C`.

# %%
# %%wia --run matmul_tiled(A, B)
# kernel matmul_tiled(
#     input A: tensor<M, K, f32>,
#     input B: tensor<K, N, f32>,
#     output C: tensor<M, N, f32>
# ) {
#     for i in 0..M {
#         for j in 0..N {
#             let sum = 0.0;
#             for k in 0..K {
#                 sum += A[i, k] * B[k, j];
#             }
#             C[i, j] = sum;
#         }
#     }
# }
# schedule matmul_tiled {
#     tile i 32, j 32, k 32;
# }

# %% [markdown]
# ## What each line is worth
#
# `build(schedule=…)` takes the same lines, so a ladder of schedules is a list. Every rung adds in
# the order of the text: the results agree to the last bit, which the loop below checks.


# %%
def best(build, *arrays, seconds=0.3):
    """The fastest of the calls that fit into some time, in microseconds."""
    build(*arrays)
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        build(*arrays)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1e6


ladder = {
    "the loops as they are": "",
    "blocks for the cache": "tile i 32, j 32, k 32",
    "four rows share what they read": "unroll_and_jam i 4",
    "lanes along j": "vectorize j 16",
    "tiles copied near, 8 x 8 sums": (
        "tile i 128, j 128, k 128; cache A at k.0, B at k.0; thread_tile i 8, j 8"
    ),
    "8 x 32 sums in registers": "thread_tile i 8, j 32",
    "what the compiler chooses": "default",
}
flops = 2 * 256**3
speeds = {}
plain = matmul.build(A, B, schedule="")(A, B)
for name, lines in ladder.items():
    build = matmul.build(A, B, schedule=lines)
    assert np.array_equal(build(A, B), plain)
    speeds[name] = flops / best(build, A, B) / 1e3
speeds["numpy, which may add in any order"] = flops / best(np.matmul, A, B) / 1e3
for name, speed in speeds.items():
    print(f"{speed:7.1f} GFLOP/s  {name}")

# %%
from PIL import Image, ImageDraw

picture = Image.new("RGB", (860, 28 * len(speeds) + 8), "white")
draw = ImageDraw.Draw(picture)
for row, (name, speed) in enumerate(speeds.items()):
    top = 8 + 28 * row
    width = int(480 * speed / max(speeds.values()))
    draw.rectangle((10, top, 10 + max(width, 2), top + 18), fill="#4c78a8")
    draw.text((18 + width, top + 4), f"{speed:.1f}  {name}", fill="black")
picture

# %% [markdown]
# Blocks alone do not do it: each sum still waits for its own last addition. What pays is that many
# sums run at once, next to each other, and that a number which was loaded is used by all of them.
#
# ## Three lines for a loop that has no blocks
#
# Instruction-level parallelism is about what stands in one turn of a loop. `loop` prints what a
# schedule left of it in the stage `lower`, right before LLVM.

# %%
small = wia.compile("""
kernel vector_add(input a: tensor<N, f32>, input b: tensor<N, f32>, output c: tensor<N, f32>) {
    for i in 0..N { c[i] = a[i] + b[i]; }
}
kernel transform(input data: tensor<N, f32>, output result: tensor<N, f32>) {
    for i in 0..N { result[i] = data[i] * data[i] + 1.0; }
}
kernel total(input array: tensor<N, f32>, output s: f32) {
    let sum = 0.0;
    for i in 0..N { sum += array[i]; }
    s = sum;
}
""")


def loop(build):
    """The nest of a build as it reaches LLVM."""
    text = build.stage("lower").text
    print(text[text.index("attributes {wia.nest}") :].split("func.return")[0])


# %% [markdown]
# **Unrolling**: four iterations in one turn, one after the other.

# %%
loop(small.vector_add.build(a, b, schedule="unroll i 4"))

# %% [markdown]
# **Software pipelining**: the load of the next iteration stands before the computation of this one.
# Ops that belong to the prologue and the epilogue say so.

# %%
loop(small.transform.build(a, schedule="pipeline i 2"))

# %% [markdown]
# **Accumulators**: the one line that changes a result, by roundings. A processor that adds in four
# cycles can have four additions on the way, if they do not wait for each other.

# %%
loop(small.total.build(a, schedule="accumulators 4"))
for lines in ("", "accumulators 4", "accumulators 16", "accumulators 64"):
    build = small.total.build(a, schedule=lines)
    print(f"{best(build, a):8.2f} µs   {build(a):.4f}   {lines or 'as written'}")
print(f"{best(np.sum, a):8.2f} µs   {a.sum():.4f}   numpy")

# %% [markdown]
# ## What is refused
#
# A line that would break a dependence is an error at that line, which names the two accesses, how
# far apart they are, and what to do instead:

# %%
try:
    wia.compile("""
kernel halves(input a: tensor<N, f32>, output c: tensor<N, f32>) {
    c[0] = a[0];
    for i in 1..N { c[i] = c[i - 1] * 0.5; }
}
schedule halves {
    unroll_and_jam i 4;
}
""").halves(a)
except wia.CompileError as error:
    print(error)

# %% [markdown]
# One that is legal and does not fit is taken, with the numbers:

# %%
large = matmul.build(A, B, schedule="thread_tile i 64, j 64")
print(next(each.reason for each in large.trace.decisions if each.kind == "warning"))

# %% [markdown]
# ## Start from what the compiler chose
#
# Its own choice is such a block. Print it, paste it, change a number:

# %%
chosen = matmul.build(A, B, schedule="default").schedule
print(chosen)
for rows in (2, 4, 8, 16):
    lines = f"thread_tile j 32, i {rows}"
    print(f"{flops / best(matmul.build(A, B, schedule=lines), A, B) / 1e3:7.1f} GFLOP/s  {lines}")

# %% [markdown]
# Whether a schedule keeps the answer needs no trust: `verify=True` runs every stage beside the
# kernel as it is written.

# %%
checked = matmul.build(
    *(wia.spec((40, 40), "f32"),) * 2, schedule="tile i 32, k 8; unroll_and_jam i 2", verify=True
)
print([decision.reason for stage in checked.stages for decision in stage.decisions][-1])

# %% [markdown]
# ## What is still wrong
#
# - **You choose the numbers.** Nothing here searches for them; try a loop over `tile`s as above.
# - **A GPU deals its threads out by itself.** It follows fewer of these lines, and refuses the
#   others with the reason ([the next tutorial](04_a_gpu_anywhere.ipynb)).
# - **A bare name is the innermost loop.** Where that is not the one you mean, write `k.0`.
