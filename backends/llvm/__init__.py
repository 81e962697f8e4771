"""Machine code for CPUs: LLVM's text, made from a loop tree, compiled and linked in this process."""
