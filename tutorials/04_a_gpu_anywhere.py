# %% [markdown]
# # A GPU on the train
#
# **The wish.** A kernel for a GPU is a guess until it has run on one, and the GPU is elsewhere.
# Here the PTX that a kernel becomes runs on a simulator, thread by thread, and counts what Nsight
# Compute would count. What it cannot know is time; a model estimates it and says that it does.
# Where this machine has a GPU, the same cells run there.

# %%
# %load_ext wia_notebook

# %%
import numpy as np
import wia_compiler as wia

random = np.random.default_rng(0)
A, B = random.standard_normal((2, 256, 256)).astype(np.float32)
bias = random.standard_normal(256).astype(np.float32)

# %% [markdown]
# ## The same cell, another target
#
# Press **Run** in the explorer and open **Assembly**: the bars beside the lines of the PTX are
# what ran, those beside the SASS what ptxas' code is predicted to run, those in your cell where
# it all came from. A click on a line marks what it became.

# %%
# %%wia --target gpu:sm_80 --run dense(A, B, bias)
# kernel dense(input A: tensor, input B: tensor, input bias: tensor, output C: tensor) {
#     x = A @ B + bias;
#     C = relu(x);
# }

# %%
C = dense(A, B, bias)
expected = np.maximum(A.astype(float) @ B + bias, 0)
print(f"off by {np.abs(C - expected).max():.1e} at most, on {dense.target.name}")

# %% [markdown]
# ## What was counted
#
# A profile has the counters under Nsight's names; those that count the PTX and not the hardware's
# own code begin with `ptx_`. Of memory, the interesting ones are sectors beyond what was asked
# for, and wavefronts of shared memory that wait for a bank.

# %%
build = dense.build(A, B, bias)
profile = build.profile(A, B, bias, device="A100")
for name in (
    "ptx_inst_executed",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "derived__memory_l2_theoretical_sectors_global_excessive",
    "shared_memory_bank_conflicts",
    "ptx_branches_divergent",
):
    print(f"{profile.counters.get(name, 0):>10}  {name}")
print(profile.estimate)

# %% [markdown]
# The estimate is there to rank. So rank: each line below is a schedule, as in the [tutorial
# before](03_schedules.ipynb), and the picture shows which part of the machine each of them waits
# for.

# %%
ladder = {
    "a point a thread": "tile i 16, j 16, k 16; thread_tile i 1, j 1",
    "2 x 2 points a thread": "tile i 32, j 32, k 16; thread_tile i 2, j 2",
    "4 x 4 points a thread": "tile i 64, j 64, k 16; thread_tile i 4, j 4",
    "reads ahead": "tile i 64, j 64, k 16; thread_tile i 4, j 4; pipeline k 2",
    "smaller blocks, more of them": "tile i 32, j 32, k 16; thread_tile i 4, j 4; pipeline k 2",
    "what the compiler chooses": "default",
}
times = {}
for name, lines in ladder.items():
    tried = build.to(schedule=lines)
    assert np.array_equal(tried(A, B, bias), C)
    estimate = tried.profile(A, B, bias, device="A100").estimate
    times[name] = 1e6 * estimate.time
    print(f"{times[name]:6.1f} µs by the model, waits for {estimate.limiter:14}  {name}")

# %%
from PIL import Image, ImageDraw

picture = Image.new("RGB", (860, 28 * len(times) + 8), "white")
draw = ImageDraw.Draw(picture)
for row, (name, time) in enumerate(times.items()):
    top = 8 + 28 * row
    width = int(480 * time / max(times.values()))
    draw.rectangle((10, top, 10 + max(width, 2), top + 18), fill="#4c78a8")
    draw.text((18 + width, top + 4), f"{time:.1f} us (model)  {name}", fill="black")
picture

# %% [markdown]
# Points that a thread computes together share what it reads. But 16 blocks of 64 × 64 leave most
# of the 108 SMs of an A100 without any: for a product as small as this one, smaller blocks win.
#
# ## Advice that can be applied
#
# Advice is a sentence with numbers, and where a line of a schedule does what it says, that line.
# In the explorer it is a button.

# %%
slow = build.to(schedule=ladder["a point a thread"]).profile(A, B, bias, device="A100")
for advice in slow.advice:
    gain = "" if advice.gain is None else f" ({advice.gain:.2g} × by the model)"
    print(f"- {advice.rule}: {advice}{gain}")
    if advice.schedule:
        print(advice.schedule)

# %% [markdown]
# ## Tensor cores
#
# Products of 16-bit floats and of 8-bit integers take them by themselves, in `mma.sync` from
# `sm_75` on and in `wgmma`, fed by tensor maps, on `sm_90a`. Products of `f32` do not, for tensor
# cores round their operands to 10 bits: that is asked for.

# %%
halves = [each.astype(np.float16) for each in (A, B, bias)]
for target in ("gpu:sm_75", "gpu:sm_80", "gpu:sm_90a"):
    half = dense.build(*halves, target=target)
    counters = half.profile(*halves).counters
    kinds = [name for name in ("mma.sync", "wgmma") if name in half.assembly("ptx")]
    error = np.abs(half(*halves).astype(float) - expected).max()
    count = counters["ptx_inst_pipe_tensor"]
    print(f"{target:10} {count} {', '.join(kinds)}, off by {error:.2g}")
    print(half.schedule)

# %%
rounded = build.to(schedule="use_tensor_cores tf32")
print(f"tf32: off by {np.abs(rounded(A, B, bias) - expected).max():.1e} at most")

# %% [markdown]
# ## Attention in one launch
#
# The scores of a block of queries stay in the registers of its warps; no matrix of them is
# written.

# %%
attend = wia.compile("""
kernel attend(input Q: tensor, input K: tensor, input V: tensor, output O: tensor) {
    O = attention(Q, K, V);
}
""").attend
Q, K, V = (random.standard_normal((1, 2, 256, 64)).astype(np.float16) for _ in range(3))
flash = attend.build(Q, K, V, target="gpu:sm_80")
counters = flash.profile(Q, K, V).counters
print(flash.schedule)
conflicts = counters["shared_memory_bank_conflicts"]
print(f"{flash.resources['kernels']} launch, {conflicts} bank conflicts")

# %% [markdown]
# ## PTX that others wrote
#
# `wia.ptx.run` takes PTX text of anyone, and `wia.ptx.profile` says of it all that is said above.
# With `debug=True` it looks for what goes wrong without an error. Here threads read what their
# neighbours write, and nothing makes them wait:

# %%
text = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry turned(.param .u64 x)
{
    .reg .b32 %r<6>; .reg .b64 %rd<3>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd0, [x];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd1, %rd0, %rd1;
    mov.u32 %r1, tile;
    mad.lo.u32 %r2, %r0, 4, %r1;
    ld.global.u32 %r3, [%rd1];
    st.shared.u32 [%r2], %r3;
    xor.b32 %r4, %r0, 63;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd1], %r5;
    ret;
}
"""
x = np.arange(64, dtype=np.uint32)
launch = wia.ptx.run(text, "turned", grid=1, block=64, args=[x], debug=True)
print(launch.findings[0])

# %% [markdown]
# The simulator's order happens to give the right answer, a GPU's need not. An index that comes
# with the data is looked after without being asked for:

# %%
pick = wia.compile("""
kernel pick(input A: tensor, input rows: tensor, output C: tensor) {
    C = index_select(A, 0, rows);
}
""").pick
try:
    pick.to("gpu:sm_80")(A, np.array([3, 256, 1]))
except wia.OutOfRangeError as error:
    print(error)

# %% [markdown]
# ## What is still wrong
#
# - **The model is a model.** It says ±50 % and was compared with no GPU yet: trust its order, not
#   its microseconds.
# - **The simulator has no caches.** Sectors are those that L1 is asked for; what it holds is
#   guessed.
# - **Large problems take long.** Some 5 thousand million thread instructions a second are fast
#   for a simulator; a product of 8192³ is not for it. The counts of 512³ tell the same story.
