"""The line that is quoted of a failed command, from what these programs really print."""
# ruff: noqa: RUF001 - pip draws with such characters

import pytest

from adapters.execution.steps.commands import Finished
from adapters.execution.telling import LINE_CHARS_MAX, telling_line

PIP_MISSING = """\
ERROR: Could not find a version that satisfies the requirement no-such-thing (from versions: none)
ERROR: No matching distribution found for no-such-thing

[notice] A new release of pip is available: 23.2.1 -> 25.0
[notice] To update, run: pip install --upgrade pip
"""
PIP_BUILD = """\
Obtaining file:///tmp/flat
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
  Getting requirements to build editable: started
  Getting requirements to build editable: finished with status 'error'
  error: subprocess-exited-with-error

  × Getting requirements to build editable did not run successfully.
  │ exit code: 1
  ╰─> [14 lines of output]
      error: Multiple top-level packages discovered in a flat-layout: ['b', 'a'].

      To avoid accidental inclusion of unwanted files or directories,
      setuptools will not proceed with this build.
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

× Getting requirements to build editable did not run successfully.
│ exit code: 1
╰─> See above for output.

note: This error originates from a subprocess, and is likely not a problem with pip.
[notice] To update, run: pip install --upgrade pip
"""
NPM_VERSION = """\
npm error code ETARGET
npm error notarget No matching version found for left-pad@99.99.99.
npm error notarget In most cases you or one of your dependencies are requesting a package version
npm notice
npm notice New minor version of npm available! 11.19.1 -> 11.21.2
npm notice To update run: npm install -g npm@11.21.2
npm notice
npm error A complete log of this run can be found in: /home/you/.npm/_logs/x-debug-0.log
"""
NPM_SCRIPT = """\

> x@1.0.0 install
> nosuchprog --x

sh: 1: nosuchprog: not found
npm error code 127
npm error path /tmp/n
npm error command failed
npm error command sh -c nosuchprog --x
npm error A complete log of this run can be found in: /home/you/.npm/_logs/x-debug-0.log
"""
CARGO = """\
   Compiling c v0.1.0 (/tmp/c)
\x1b[0m\x1b[1m\x1b[38;5;9merror[E0308]\x1b[0m\x1b[0m\x1b[1m: mismatched types\x1b[0m
 --> src/main.rs:1:25
  |
1 | fn main(){ let x: i32 = "a"; }
  |                   ---   ^^^ expected `i32`, found `&str`

For more information about this error, try `rustc --explain E0308`.
error: could not compile `c` (bin "c") due to 1 previous error
"""
PYTEST = """\
F                                                                        [100%]
=================================== FAILURES ===================================
____________________________________ test_a ____________________________________

>   def test_a(): assert 1==2
E   assert 1 == 2

test_x.py:1: AssertionError
=========================== short test summary info ============================
FAILED test_x.py::test_a - assert 1 == 2
1 failed in 0.06s
"""
PYTEST_MISSING = "\nno tests ran in 0.01s\nERROR: file or directory not found: nothere.py\n\n"
MAKE = """\
gcc -o a a.c
a.c: In function 'main':
a.c:1:20: error: 'x' undeclared (first use in this function)
    1 | int main(){ return x; }
      |                    ^
a.c:1:20: note: each undeclared identifier is reported only once for each function it appears in
make: *** [Makefile:2: a] Error 1
"""
MAKE_ALONE = "compiling\nmake: *** [Makefile:3: all] Error 1\n"
TSC = """\
a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.
a.ts(1,30): error TS2322: Type 'number' is not assignable to type 'string'.
"""
NODE = """\
node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module 'nothere'
Require stack:
- /tmp/n/[eval]
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/tmp/n/[eval]' ]
}

Node.js v20.20.2
"""
PYTHON = """\
Traceback (most recent call last):
  File "/tmp/setup.py", line 1, in <module>
    import nothere
ModuleNotFoundError: No module named 'nothere'
"""


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (PIP_MISSING, PIP_MISSING.splitlines()[0]),
        (PIP_BUILD, PIP_BUILD.splitlines()[10].strip()),
        (NPM_VERSION, NPM_VERSION.splitlines()[1]),
        (NPM_SCRIPT, "sh: 1: nosuchprog: not found"),
        (CARGO, "error[E0308]: mismatched types"),
        (PYTEST, "FAILED test_x.py::test_a - assert 1 == 2"),
        (PYTEST_MISSING, "ERROR: file or directory not found: nothere.py"),
        (MAKE, MAKE.splitlines()[2]),
        (MAKE_ALONE, "make: *** [Makefile:3: all] Error 1"),
        (TSC, TSC.splitlines()[0]),
        (NODE, "Error: Cannot find module 'nothere'"),
        (PYTHON, "ModuleNotFoundError: No module named 'nothere'"),
        (
            "fetching\r 10% ###\r 50% ######\rdisk quota exceeded\n100% ####\n\n",
            "disk quota exceeded",
        ),
        ("it is full\n", "it is full"),
        ("npm notice\n", "npm notice"),
        ("", ""),
    ],
)
def test_the_line_that_says_what_failed_is_quoted(printed: str, line: str) -> None:
    assert telling_line(printed) == line
    assert Finished(1, printed, 0.0).telling_line == (line or "it printed nothing")


def test_a_line_is_bounded() -> None:
    assert len(telling_line("error: " + "x" * 100_000)) == LINE_CHARS_MAX
