"""The compiled engine: PTX as LLVM IR for the lanes of a warp, from the same tables of meanings."""
