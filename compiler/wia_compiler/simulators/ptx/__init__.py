"""Runs PTX text on numpy arrays and counts what it does: text in, numbers out."""

from wia_compiler.simulators.ptx.faults import PtxFault
from wia_compiler.simulators.ptx.findings import Finding
from wia_compiler.simulators.ptx.launch import Launch, run
from wia_compiler.simulators.ptx.tensor_map import TensorMap

__all__ = ["Finding", "Launch", "PtxFault", "TensorMap", "run"]
