"""From scf, memref, arith, math, vector and gpu ops to LLVM IR text, and on to machine code."""
