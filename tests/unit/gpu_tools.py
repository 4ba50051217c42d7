"""Marks of tests that need NVIDIA's assembler."""

import os

import pytest
from wia_compiler.backends.gpu.tools import INSTALL_COMMAND, find_tool

_ABSENT = find_tool("ptxas") is None or find_tool("nvdisasm") is None

# On CI an absent assembler is a failure: the test runs, and fails with the command to install it.
needs_ptxas = pytest.mark.skipif(
    _ABSENT and os.environ.get("CI", "").lower() != "true",
    reason=f"ptxas or nvdisasm is not installed: {INSTALL_COMMAND}",
)
