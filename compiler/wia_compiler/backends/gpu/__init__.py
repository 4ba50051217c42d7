"""NVIDIA GPUs: nests to PTX, and what ptxas, nvdisasm and cupy do with it."""
