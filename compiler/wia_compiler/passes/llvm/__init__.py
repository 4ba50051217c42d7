"""From scf, memref, arith, math, vector and gpu ops to LLVM IR text, and from there to machine code."""
