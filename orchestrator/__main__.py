"""``python -m orchestrator``: the name people know, for the program that drivers/ is.

As a library this package knows nothing of drivers; here it only hands the process over.
"""

import runpy

runpy.run_module("drivers.cli.main", run_name="__main__", alter_sys=True)
