"""``python -m adapters.execution.rehearsal``, or this file's own path."""

import os
import sys

if not __package__:
    # Run by path: the directory of this file is no place to import from; the one that
    # holds the ``adapters`` package is.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0:0] = [os.path.dirname(os.path.dirname(os.path.dirname(here)))]

from adapters.execution.rehearsal.client import main

sys.exit(main(sys.argv[1:]))
