"""Runs TPU assembly text on numpy and counts what the machine would: text in, numbers out."""

from wia_compiler.simulators.tpu.simulator import Launch, TpuFault, run

__all__ = ["Launch", "TpuFault", "run"]
