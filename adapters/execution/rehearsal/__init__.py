"""The rehearsal agent: an executable that speaks the client's protocol and follows a scenario.

It stands in for ``claude`` where an account, a network or chance would be in the way: the
demo, tests, a first try of a project file.  It is a real process that edits real files and
runs real commands; only the thinking is scripted.  It starts with every stage of every
dispatch, so it imports little: no third-party package, no dataclasses, no pathlib.
"""

import sys


def command(scenario: str | None = None) -> tuple[str, ...]:
    """The argv prefix for ``[agent] command``: works from any directory, installed or not.

    ``-I -S`` leaves out site-packages, which it does not need, and the working directory,
    which may hold a package of the same name.
    """
    # Not __file__'s pathlib form: this module is on the start-up path.
    main = __file__.removesuffix("__init__.py") + "__main__.py"
    prefix = (sys.executable, "-I", "-S", main)
    return (*prefix, "--scenario", scenario) if scenario else prefix
