"""Loops of the low level written out as a schedule asked: unrolled, jammed, pipelined, prefetched.

Each module holds one rewrite of an ``scf.for``; its docstring shows the loop before and after.
``expand_hints`` applies what ``dialects.loop_hints`` notes on loops.
"""

from wia_compiler.passes.scf_rewrites.expand import expand_hints

__all__ = ["expand_hints"]
