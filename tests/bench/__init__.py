"""Benchmarks: our overhead beside a peer or a limit that is measured in the same run.

A benchmark, not a test: nothing fails because the machine is slow.
"""
