"""x86-64 code for the CPU this process runs on: schedule, vector code, LLVM, loading, calls."""
