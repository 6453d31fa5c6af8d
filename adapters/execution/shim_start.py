"""How the shim is started: ``python -I -S shim_start.py stem=… -- program argument…``.

A program is compiled at every start, a module once: this file is short so that shim.py, which
holds the shim, can be the module.  -I -S leaves no path to either, so it is given here.
"""

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [here, os.path.join(os.path.dirname(here), "host")]
    import shim  # type: ignore[import-not-found]

    shim.main(sys.argv[1:])
    os._exit(0)
