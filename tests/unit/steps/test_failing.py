"""Names of failed tests, read from what real runners printed."""

import time

import pytest
from hypothesis import given, strategies as st

from adapters.execution.steps.failing import FAILED_MAX, NAME_CHARS_MAX, Failing, Problems

PYTEST = """\
=================================== FAILURES ===================================
____________________________________ test_x ____________________________________
------------------------------ Captured log call -------------------------------
ERROR    root:test_a.py:3 not a test
=========================== short test summary info ============================
FAILED tests/test_a.py::test_x - assert 0
FAILED tests/test_a.py::TestY::test_z[a - b] - ValueError: x - y
ERROR tests/test_b.py - ModuleNotFoundError: No module named 'b'
ERROR tests/test_c.py::test_setup - fixture failed
2 failed, 5 passed, 2 errors in 0.10s
"""
UNITTEST = """\
test_ok (tests.test_a.T.test_ok) ... ok
test_x (tests.test_a.T.test_x) ... FAIL
======================================================================
ERROR: tests.test_b (unittest.loader._FailedTest.tests.test_b)
----------------------------------------------------------------------
======================================================================
FAIL: test_x (tests.test_a.T.test_x) (i=1)
----------------------------------------------------------------------
Ran 12 tests in 0.003s

FAILED (failures=1, errors=1)
"""
GO = """\
--- FAIL: TestAdd (0.00s)
    --- FAIL: TestAdd/negative (0.00s)
        add_test.go:10: got 1
FAIL
FAIL\texample.com/m/add\t0.002s
ok  \texample.com/m/ok\t0.001s
# example.com/m/broken
broken/b_test.go:3:1: syntax error
FAIL\texample.com/m/broken [build failed]
FAIL
"""
GO_JSON = """\
{"Time":"2025-01-01T00:00:00Z","Action":"run","Package":"m/add","Test":"TestAdd"}
{"Time":"2025-01-01T00:00:00Z","Action":"fail","Package":"m/add","Test":"TestAdd","Elapsed":0}
{"Time":"2025-01-01T00:00:00Z","Action":"fail","Package":"m/add","Elapsed":0.002}
"""
CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/crat-4dbf17e2d6ad3a4f)
test tests::nopanic - should panic ... FAILED
test tests::ok ... ok
test tests::bad ... FAILED
---- tests::bad stdout ----
thread 'tests::bad' (1538) panicked at src/lib.rs:5:44:
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.11s
     Running tests/it.rs (target/debug/deps/it-9a1395fb797bc2de)
test bad ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
   Doc-tests crat
test src/lib.rs - f (line 1) ... FAILED
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.11s
"""
NEXTEST = """\
        PASS [   0.004s] crat tests::ok
        FAIL [   0.005s] crat tests::bad
"""
JEST = """\
FAIL ./pkg.test.js
  ● Console

    console.log
      hello

  ● suite \u203a adds

    expect(received).toBe(expected) // Object.is equality

  ● top

    Expected: 3

FAIL ./broken.test.js (5.1 s)
  ● Test suite failed to run

    SyntaxError: Cannot use import statement outside a module

Test Suites: 2 failed, 2 total
Tests:       2 failed, 1 passed, 3 total
"""
VITEST = (
    "\x1b[41m\x1b[1m FAIL \x1b[22m\x1b[49m broken.spec.ts\x1b[2m [ broken.spec.ts ]\x1b[22m\n"
    "\x1b[31m\x1b[1mError\x1b[22m: Cannot find module './nope'\x1b[39m\n"
    "\x1b[41m\x1b[1m FAIL \x1b[22m\x1b[49m v.spec.ts\x1b[2m > \x1b[22msuite\x1b[2m > \x1b[22madds\n"
    "\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[31m2 failed\x1b[39m\x1b[22m\x1b[2m | "
    "\x1b[22m\x1b[1m\x1b[32m1 passed\x1b[39m\x1b[22m\x1b[90m (3)\x1b[39m\n"
)
TAP = """\
TAP version 13
# Subtest: adds
not ok 1 - adds
    not ok 1 - inner fails
    ok 2 - inner ok
not ok 3 - suite
not ok 4 - todo # TODO
not ok 5 - inner fails
# pass 2
# fail 2
"""
NODE_SPEC = """\
✖ adds (1.2345ms)
✔ ok (0.1ms)
\u2139 pass 1
✖ failing tests:
✖ adds (1.2345ms)
"""
OTHERS = """\
[ERROR] com.x.ATest.b -- Time elapsed: 0.012 s <<< FAILURE!
[ERROR] Failures:
com.x.ATest > c() FAILED
\t  3 - slow_one (Timeout)
rspec ./spec/a_spec.rb:12 # A does b
1) Tests\\FooTest::testBar
  Failed My.Tests.Adds [12 ms]
(fail) suite > adds [0.05ms]
"""


@pytest.mark.parametrize(
    ("output", "names", "passed"),
    [
        (
            PYTEST,
            [
                "tests/test_a.py::test_x",
                "tests/test_a.py::TestY::test_z[a - b]",
                "tests/test_b.py",
                "tests/test_c.py::test_setup",
            ],
            5,
        ),
        (
            UNITTEST,
            [
                "tests.test_b (unittest.loader._FailedTest.tests.test_b)",
                "test_x (tests.test_a.T.test_x) (i=1)",
            ],
            12,
        ),
        (
            GO,
            [
                "example.com/m/add TestAdd",
                "example.com/m/add TestAdd/negative",
                "example.com/m/broken [build failed]",
            ],
            None,
        ),
        (GO_JSON, ["m/add TestAdd", "m/add"], None),
        (
            CARGO,
            [
                "unittests src/lib.rs tests::nopanic",
                "unittests src/lib.rs tests::bad",
                "tests/it.rs bad",
                "crat src/lib.rs - f",
            ],
            2,
        ),
        (NEXTEST, ["crat tests::bad"], None),
        (
            JEST,
            [
                "./pkg.test.js: suite \u203a adds",
                "./pkg.test.js: top",
                "./broken.test.js: Test suite failed to run",
            ],
            1,
        ),
        (VITEST, ["v.spec.ts > suite > adds", "broken.spec.ts"], 1),
        (TAP, ["adds", "inner fails", "suite", "inner fails (2)"], 2),
        (NODE_SPEC, ["adds"], 1),
        (
            OTHERS,
            [
                "com.x.ATest.b",
                "com.x.ATest > c()",
                "slow_one",
                "./spec/a_spec.rb # A does b",
                "Tests\\FooTest::testBar",
                "My.Tests.Adds",
                "suite > adds",
            ],
            None,
        ),
    ],
    ids=[
        "pytest", "unittest", "go", "go json", "cargo", "nextest", "jest", "vitest", "tap",
        "node spec", "others",
    ],
)  # fmt: skip
def test_each_runners_failures_are_named(output: str, names: list[str], passed: int | None) -> None:
    reader = Failing()
    for line in output.splitlines():
        reader.feed(line)
    assert reader.names() == names
    assert reader.passed == passed


def test_a_failure_has_the_same_name_when_only_times_and_places_change() -> None:
    first, second = Failing(), Failing()
    for line in (CARGO + GO + NODE_SPEC + OTHERS).splitlines():
        first.feed(line)
        second.feed(
            line.replace("0.00s", "1.50s")
            .replace("1.2345ms", "20ms")
            .replace("4dbf17e2d6ad3a4f", "0000000000000000")
            .replace("(line 1)", "(line 7)")
            .replace(".rb:12", ".rb:99")
            .replace("0.012 s", "3 s")
        )
    assert first.names() == second.names()


def test_problems_of_a_linter_are_named_without_their_lines() -> None:
    reader = Problems()
    for line in (
        "src/a.py:3:1: F401 `os` imported but unused",
        "src/a.py:30:1: F401 `os` imported but unused",
        "src/b.ts(10,5): error TS2304: Cannot find name 'x'.",
        "F841 Local variable `y` is assigned to but never used",
        " --> src/c.py:4:5",
        "Found 4 errors.",
    ):
        reader.feed(line)
    assert reader.names() == [
        "src/a.py: F401 `os` imported but unused",
        "src/b.ts: error TS2304: Cannot find name 'x'.",
        "src/c.py: F841 Local variable `y` is assigned to but never used",
    ]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=60)))
def test_no_output_can_break_the_readers(lines: list[str]) -> None:
    for reader in (Failing(), Problems()):
        for line in lines:
            reader.feed(line)
            reader.feed(f"not ok {line}")
            reader.feed(f'{{"Time"{line}')
        assert all(len(name) <= NAME_CHARS_MAX for name in reader.names())


@pytest.mark.parametrize(
    "line",
    [
        "x" * 64_000,
        "FAILED " + "a.py::[" * 8_000,
        "FAIL: " + "a " * 30_000,
        "FAILED " + "a.py::" * 10_000 + " - ",
        "not ok " + "# " * 30_000,
        " " * 60_000 + "FAIL",
        "FAIL " + "x" * 60_000,
        "a.b:" * 16_000,
        "FAIL [ " + "1 " * 30_000,
    ],
)
def test_a_hostile_line_is_read_in_linear_time(line: str) -> None:
    started = time.perf_counter()
    for reader in (Failing(), Problems()):
        reader.feed(line)
    assert time.perf_counter() - started < 0.5


def test_names_are_bounded_in_number() -> None:
    reader = Failing()
    for number in range(FAILED_MAX + 10):
        reader.feed(f"FAILED tests/test_a.py::test_{number} - no")
    assert len(reader.names()) == FAILED_MAX
