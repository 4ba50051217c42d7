# %% [markdown]
# # One cell, from mathematics to the machine
#
# **The wish.** Find the edges in a photograph: slide eight small filters over it, add a bias to
# each result and keep what is positive. In mathematics that is one line,
# `relu(conv2d(X, W) + b)`. On a machine it can be three trips through memory or one.
#
# In the next minutes you write that line, watch what becomes of it — tensor ops, a fusion that is
# explained, loops, x86, PTX and SASS — run it on the photograph, and see where it stands on the
# roofline of *this* computer.

# %%
# %load_ext wia_notebook

# %% [markdown]
# The photograph ships with scikit-learn, so this works with no network. Kernels take numpy
# arrays: batch × channels × height × width.

# %%
import numpy as np
from sklearn.datasets import load_sample_image

photograph = load_sample_image("flower.jpg")
X = np.ascontiguousarray(photograph.transpose(2, 0, 1)[None], dtype=np.float32) / 255

sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=np.float32)
diagonal = np.array([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], dtype=np.float32)
directions = [
    sobel,
    -sobel,
    sobel.T,
    -sobel.T,
    diagonal,
    -diagonal,
    diagonal[::-1],
    -diagonal[::-1],
]
W = np.stack([np.stack([d / 3] * 3) for d in directions]).astype(np.float32)
b = np.full((8, 1, 1), -0.1, dtype=np.float32)
X.shape, W.shape, b.shape

# %% [markdown]
# ## Before: what you wrote
#
# A `%%wia` cell compiles its kernels and puts each under its own name into the notebook.
# `--run` also calls it, so that shapes are known and every stage exists.
#
# In the explorer below, the ribbon is the order in which the compiler works. Press → to step.
# Look at **infer-shapes** first: your line is three ops — `conv2d`, `add`, `relu` — and each of
# the two values between them has 8 × 427 × 640 elements, 8.7 MB that would be written and read
# again.

# %%
# %%wia --run edges(X, W, b)
# // eight directions of light and dark
# kernel edges(
#     input X: tensor<1, 3, H, V, f32>,
#     input W: tensor<F, 3, 3, 3, f32>,
#     input b: tensor<F, 1, 1, f32>,
#     output Y: tensor
# ) {
#     y = conv2d(X, W, padding=1);
#     y = y + b;
#     Y = relu(y);
# }

# %% [markdown]
# The same tensor ops in the notation of the specification that this compiler implements:

# %%
print(edges.ir("chapter"))

# %% [markdown]
# ## Why it fused
#
# Step to **fusion**. Two candidates were weighed and both were taken: nobody else needs the values
# between, they fit in registers, and the traffic saved outweighs the registers spent. The table
# under *Decisions* holds the numbers; here they are as plain data:

# %%
build = edges.build(X, W, b)
for decision in build.stage("fusion").decisions:
    print("taken  " if decision.taken else "refused", decision.candidate, "—", decision.reason)

# %% [markdown]
# ## A change: ask for more
#
# Now also return the strongest direction at every pixel. The new candidate is refused: `relu` is
# computed once, as the convolution writes its result, and a maximum over the eight directions
# would have to wait for all of them.

# %%
# %%wia --run edges_and_strongest(X, W, b)
# kernel edges_and_strongest(
#     input X: tensor,
#     input W: tensor,
#     input b: tensor,
#     output Y: tensor,
#     output strongest: tensor
# ) {
#     Y = relu(conv2d(X, W, padding=1) + b);
#     strongest = reduce_max(Y, axis=1);
# }

# %%
for decision in edges_and_strongest.build(X, W, b).stage("fusion").decisions:
    print("taken  " if decision.taken else "refused", decision.candidate, "—", decision.reason)

# %% [markdown]
# ## After: the same kernel on other machines
#
# The loops under **loops** are the same for every target; what follows is not. Here is the PTX for
# an H100 and, when NVIDIA's assembler is installed, the SASS it becomes — no GPU is needed to read
# them.

# %%
gpu = edges.build(X, W, b, target="gpu:sm_90")
gpu

# %%
print(gpu.assembly("ptx")[:1600])
{
    name: gpu.resources[name]
    for name in ("registers", "shared_bytes", "occupancy", "occupancy_limiter")
}

# %% [markdown]
# ## The roofline of this computer
#
# The ceilings are measured on your machine by small kernels that the compiler makes itself. The
# point is the median of warm runs of `edges` on the photograph, with its spread.

# %%
# %wia_roofline edges(X, W, b)

# %% [markdown]
# ## The picture

# %%
from IPython.display import display
from PIL import Image

Y = edges(X, W, b)
reference = np.maximum(
    sum(
        np.einsum(
            "chw,fc->fhw",
            np.pad(X[0], ((0, 0), (1, 1), (1, 1)))[:, r : r + 427, s : s + 640],
            W[:, :, r, s],
        )
        for r in range(3)
        for s in range(3)
    )
    + b,
    0,
)
assert np.allclose(Y[0], reference, atol=1e-5)

strength = Y[0].max(axis=0)
edges_image = Image.fromarray((255 * np.clip(strength, 0, 1)).astype(np.uint8))
side_by_side = Image.new("RGB", (1280, 427))
side_by_side.paste(Image.fromarray(photograph), (0, 0))
side_by_side.paste(edges_image.convert("RGB"), (640, 0))
display(side_by_side.resize((960, 320)))

# %% [markdown]
# ## What is still wrong
#
# Three things, and each is visible above.
#
# - **One core.** The roofline is that of a single core, and so is the kernel.
# - **Half of the arithmetic is not needed.** Four of the eight filters are the other four with the
#   sign turned. The compiler may fuse what you wrote; it does not know what is *in* `W`, so it
#   multiplies everything twice. `relu(-y)` of four sums would do.
# - **The GPU version is a direct convolution.** Each thread reads its neighbourhood from global
#   memory; nothing is staged in shared memory and no tensor core is used. Its occupancy and what
#   limits it stand in `gpu.resources`.
