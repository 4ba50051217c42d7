# %% [markdown]
# # Your own kernels, as you would write them anyway
#
# **The wish.** You have a loop in C++, a function in Python, a formula in your head. None of them
# is a `relu(conv2d(…))` from a library, and you want to see what a compiler makes of *that*: which
# loops it may run at once and why, what it proves about your indices, what the GPU would count.
#
# The kernel of this notebook is the Mandelbrot set: a `while` for every pixel, of which nobody
# knows beforehand how often it turns.

# %%
# %load_ext wia_notebook

# %% [markdown]
# ## Loops over elements
#
# `for` and `while`, single elements, variables that change: text on this level means what it says,
# in that order, each operation rounded once. Sizes have names (`H`, `W`) and are what the arguments
# say.

# %%
import numpy as np
import wia_compiler as wia

cr = np.linspace(-2.2, 0.8, 480, dtype=np.float32)
ci = np.linspace(-1.2, 1.2, 320, dtype=np.float32)

# %%
# %%wia --run mandelbrot(cr, ci)
# kernel mandelbrot(
#     input cr: tensor<W, f32>,
#     input ci: tensor<H, f32>,
#     output n: tensor<H, W, i32>
# ) {
#     for y in 0..H {
#         for x in 0..W {
#             let zr = 0.0;
#             let zi = 0.0;
#             let count = 0;
#             while (zr * zr + zi * zi < 4.0 && count < 60) {
#                 let next: f32 = zr * zr - zi * zi + cr[x];
#                 zi = 2.0 * zr * zi + ci[y];
#                 zr = next;
#                 count = count + 1;
#             }
#             n[y, x] = count;
#         }
#     }
# }

# %%
from IPython.display import display
from PIL import Image

n = mandelbrot(cr, ci)
shade = np.where(n == 60, 0, 255 - 4 * n).astype(np.uint8)
display(Image.fromarray(shade).resize((720, 480)))

# %% [markdown]
# In the explorer, step to **import**: the whole nest is one op, `loop.nest`, with the loops inside
# and your variables as values that the loops carry (`iter_args`): nothing is a mutable variable any
# more. In **loops** it has become what every target starts from.
#
# ## Which loops may run at once
#
# The compiler looks for a reason why iterations could depend on one another. For `y` and `x` there
# is none; a sum carries one. Here is a kernel of each sort:

# %%
program = wia.compile("""
kernel total(input A: tensor<N, f32>, output s: f32) {
    let sum = 0.0;
    for i in 0..N { sum += A[i]; }
    s = sum;
}
kernel blur(input A: tensor<N, f32>, output B: tensor<N, f32>) {
    for i in 0..N {
        if (i > 0 && i < N - 1) { B[i] = (A[i - 1] + A[i] + A[i + 1]) / 3.0; }
        else { B[i] = A[i]; }
    }
}
""")
for kernel in (program.total, program.blur):
    for decision in kernel.build(wia.spec((1000,), "f32")).stage("loops").decisions:
        if decision.kind == "loop":
            taken = "any order" if decision.taken else "in order "
            print(f"{kernel.name:6} {decision.candidate}: {taken} — {decision.reason}")

# %% [markdown]
# ## What is proven about your indices
#
# Sizes are known when a kernel is compiled for its arguments, so most accesses can be proven to
# stay inside their array. One that certainly does not is an error before anything runs:

# %%
wrong = wia.compile("""
kernel shifted(input A: tensor<N, f32>, output B: tensor<N, f32>) {
    for i in 0..N { B[i] = A[i + 1]; }
}
""")
try:
    wrong.shifted(np.zeros(8, np.float32))
except wia.CompileError as error:
    print(error)

# %% [markdown]
# Where the index comes from data, nobody can know. Such an access is checked while the kernel runs
# (`debug=True` checks every one): it is left out, and the call says which index it was.

# %%
scatter = wia.compile("""
kernel scatter(input A: tensor<N, f32>, input where: tensor<N, i64>, output B: tensor<8, f32>) {
    for i in 0..N { B[where[i]] += A[i]; }
}
""").scatter
print(scatter(np.ones(5, np.float32), np.array([0, 1, 1, 7, 7])))
try:
    scatter(np.ones(2, np.float32), np.array([3, 9]))
except wia.WiaError as error:
    print(error)

# %% [markdown]
# ## The same kernel in C++ and in Python
#
# A C++ loop nest compiles as it is, within a subset that `docs/front_ends.md` lists. So does a
# Python function. They meet in one IR, so whatever holds for one holds for all.

# %%
cpp = wia.compile(
    """
void mandelbrot(int W, int H, const float cr[W], const float ci[H], int n[H][W]) {
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) {
            float zr = 0, zi = 0;
            int count = 0;
            while (zr * zr + zi * zi < 4 && count < 60) {
                float next = zr * zr - zi * zi + cr[x];
                zi = 2 * zr * zi + ci[y];
                zr = next;
                count++;
            }
            n[y][x] = count;
        }
    }
}
""",
    language="c++",
).mandelbrot


@wia.kernel
def in_python(cr: "tensor<W, f32>", ci: "tensor<H, f32>", n: wia.Output["H", "W", "i32"]):
    for y in range(ci.shape[0]):
        for x in range(cr.shape[0]):
            zr = zi = 0.0
            count = 0
            while zr * zr + zi * zi < 4.0 and count < 60:
                next_: "f32" = zr * zr - zi * zi + cr[x]
                zi = 2.0 * zr * zi + ci[y]
                zr = next_
                count += 1
            n[y, x] = count


assert np.array_equal(cpp(cr, ci), n) and np.array_equal(in_python(cr, ci), n)
print(cpp.ir("mlir")[:400])

# %% [markdown]
# ## Branches over whole tensors
#
# The specification's own notation works in a cell too: blocks with arguments, `cond_br`, one op a
# line. What it does not define is taken from the notebook: `%scale` below is your variable.

# %%
scale = np.float32(0.5)

# %%
# %%wia --run damped(np.full((64, 64), 3, np.float32), 100.0)
# func @damped(%x: tensor, %limit: f32) {
#     br ^test(%x)
#
# ^test(%now: tensor):
#     %norm = reduce_sum(abs(%now))
#     cond_br %norm > %limit, ^again, ^done
#
# ^again:
#     %less = mul(%now, %scale)
#     br ^test(%less)
#
# ^done:
#     return %now
# }

# %%
print(damped(np.full((64, 64), 3, np.float32), 100.0).sum())

# %% [markdown]
# ## Teaching the compiler a rewrite, and failing to cheat it
#
# A `pattern` is a rewrite of your own. Before it may fire, its two sides are run on random and on
# awkward inputs. This one holds for real numbers, and not for floating point:

# %%
cheat = wia.compile("""
pattern CancelLog { match: %y = log(exp(%x))  rewrite: %y = add(%x, 0.0) }
kernel f(input X: tensor, output Y: tensor) { Y = log(exp(X)); }
""")
try:
    cheat.f(np.ones(4, np.float32))
except wia.CompileError as error:
    print(error)

# %%
# %%wia --run gated(np.ones((64, 256), np.float32), np.ones((64, 256), np.float32))
# // x * sigmoid(x) is an op of its own
# pattern SpellSilu {
#     match:
#         %s = sigmoid(%x)
#         %y = mul(%x, %s)
#     rewrite:
#         %y = silu(%x)
# }
# kernel gated(input A: tensor, input B: tensor, output Y: tensor) {
#     Y = A * sigmoid(A) * B;
# }

# %% [markdown]
# ## Is every step of the compiler right?
#
# `verify=True` runs each stage beside your kernel as you wrote it, op by op, and names the first
# pass that changed the answer. Here all agree:

# %%
checked = gated.build(wia.spec((17, 127), "f32"), wia.spec((17, 127), "f32"), verify=True)
print([decision.reason for stage in checked.stages for decision in stage.decisions][-1])

# %% [markdown]
# ## A GPU that is not here
#
# The PTX of `mandelbrot` runs on a simulator that counts what the hardware would count. Neighbours
# leave their `while` at different turns, and the counters show it:

# %%
profile = mandelbrot.profile(cr[::4], ci[::4], target="gpu:sm_90")
together = profile.counters["ptx_thread_inst_executed_per_inst_executed"]
print(f"{together:.1f} of 32 threads of a warp work on average")
print("\n".join(profile.advice))

# %% [markdown]
# ## What is still wrong
#
# - **Nobody told these loops how to run.** The compiler chose; the next notebook takes that over.
# - **A `while` is not vectorised on the CPU.** Each pixel is computed alone.
# - **The simulator has no clock.** It says what a GPU would do, not how long that takes.
