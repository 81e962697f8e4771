"""Tilewright: a compiler for small tensor programs that keeps the bits of their definition."""
