"""Kernels in the language, one family a file; the folder is the register.

    import wia_kernels
    wia_kernels.names()                         ('conv_bias_relu', 'gelu', …)
    wia_kernels.get("softmax").text             the kernel, ready for wia.compile or a %%wia cell

A file of this folder with a ``KERNELS`` tuple adds its kernels; nothing else is to be edited.
"""

from wia_kernels.definition import KernelDefinition
from wia_kernels.register import definitions, get, names

__all__ = ["KernelDefinition", "definitions", "get", "names"]
