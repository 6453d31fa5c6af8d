"""The program of the deterministic stages: inputs as JSON on stdin, JSON lines on stdout.

Run by path with ``python -I -S``: nothing of the repository it works on, nor of the
environment, can stand in for a module of ours.  It may be killed at any point and is then
run again with the same inputs: each stage finishes what it finds half done.
"""

import os
import sys

if not __package__:
    # Last, so that nothing installed beside us stands in for the standard library.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from adapters.execution.steps.program import main

if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer.read(), os.environ))
