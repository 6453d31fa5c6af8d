"""Which tests failed, read from a test command's output as it comes.

Invariant: the same failure gets the same name in every run, free of times and line numbers;
names are bounded in number and length.  What no form here fits has no names: then the whole
command is what failed.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

FAILED_MAX = 5000
NAME_CHARS_MAX = 500
LINE_CHARS_MAX = 2000
"""Read of a line: no expression here has to be linear in what a hostile test prints."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


_TELLING = re.compile(
    r"FAIL|ERROR|SIGABRT|SIGSEGV|TIMEOUT|not ok|✖|●|\(fail\)|rspec \.|^\d+\) |Failed|Timeout"
    r"|SEGFAULT|aborted\)|passed|Ran \d|pass \d|Running |Doc-tests |^\{\"Time"
)
"""In every line that any form below takes: most lines are passed over at once."""


class Form(NamedTuple):
    """A line that by itself names a failed test: its first group, or its groups joined."""

    line: re.Pattern[str]
    joined_by: str = ""


def _form(pattern: str, joined_by: str = "") -> Form:
    return Form(re.compile(pattern), joined_by)


_FORMS = (
    # pytest: the short summary, also with -v and under xdist
    _form(r"^(?:FAILED|ERROR) (\S+?\.py(?:::[^\[]*?)?(?:\[.*?\])?)(?: - .*)?$"),
    # unittest: FAIL: test_x (tests.test_a.T.test_x) (i=1)
    _form(r"^(?:FAIL|ERROR): (\S+ \([\w.]+\)(?: .*)?)$"),
    # cargo nextest: FAIL [   0.005s] crate module::name
    _form(r"^\s+(?:FAIL|SIGABRT|SIGSEGV|TIMEOUT) \[\s*[\d.]+s\] (?:\(\S+/\S+\) )?(\S+ \S+)$"),
    # vitest: FAIL  src/a.test.ts > suite > name
    _form(r"^\s*FAIL\s+(?:\|[^|]*\| )?(\S.* > .*?)\s*$"),
    # node --test, spec reporter: ✖ name (1.2ms)
    _form(r"^\s*✖ (?!failing tests:)(.+?)(?: \([\d.]+m?s\))?(?: # .*)?$"),
    # bun: (fail) suite > name [0.1ms]
    _form(r"^\(fail\) (.+?)(?: \[[\d.]+m?s\])?$"),
    # maven surefire: [ERROR] com.x.A.b -- Time elapsed: 0.01 s <<< FAILURE!
    _form(r"^\[ERROR\]\s+(\S.*?)\s+(?:-- )?Time elapsed:.*<<< (?:FAILURE|ERROR)!\s*$"),
    # gradle: com.x.A > b() FAILED
    _form(r"^(\S+ > .+) FAILED$"),
    # ctest numbers each, with how it ended in brackets
    _form(r"^\s*\d+ - (.+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted)\)$"),
    # rspec ./spec/a_spec.rb:12 # A does b
    _form(r"^rspec (\./\S+?):\d+( # .+)$", " "),
    # phpunit: 1) Tests\FooTest::testBar
    _form(r"^\d+\) ([\w\\]+::\w.*)$"),
    # dotnet test:   Failed Namespace.Class.Test [12 ms]
    _form(r"^\s+Failed (\S.*) \[[<\d. ]+m?s\]$"),
)

_PASSED = (
    re.compile(r"\b(\d+) passed\b"),  # pytest, cargo, jest, vitest
    re.compile(r"^Ran (\d+) tests? in "),  # unittest: all of them
    re.compile(r"^(?:# |\u2139 )pass (\d+)$"),  # node --test
)

# lint and type checkers: path:line[:column]: message, path(line,column): message
_PROBLEM = re.compile(
    r"^(?:\s*--> )?(\S[^:()\n]*?\.\w+)(?::\d+(?::\d+)?|\(\d+,\d+\))(?::\s*(.*))?$"
)


class Failing:
    """Feed it every line, then ask."""

    def __init__(self) -> None:
        self.passed: int | None = None
        self._names: dict[str, None] = {}
        self._go_tests: list[str] = []
        self._cargo_target = ""
        self._jest_file = ""
        self._jest_files: dict[str, bool] = {}
        self._repeated: dict[str, int] = {}

    def feed(self, raw: str) -> None:
        raw = raw[:LINE_CHARS_MAX]
        if not _TELLING.search(raw):
            return
        line = _COLOUR.sub("", raw.rstrip("\r"))
        if any(read(line) for read in self._readers):
            return
        for form in _FORMS:
            if found := form.line.match(line):
                self._add(form.joined_by.join(group.strip() for group in found.groups()))
                return
        self._count(line)

    def names(self) -> list[str]:
        """Every failed test once, in order of appearance."""
        for test in self._go_tests:  # their package's line never came
            self._add(test)
        for file, is_explained in self._jest_files.items():
            if not is_explained:
                self._add(file)
        self._go_tests, self._jest_files = [], {}
        return list(self._names)

    @property
    def _readers(self) -> tuple[Callable[[str], bool], ...]:
        return (self._go, self._go_json, self._cargo, self._jest, self._tap)

    def _add(self, name: str) -> None:
        if len(self._names) < FAILED_MAX:
            self._names[name[:NAME_CHARS_MAX]] = None

    def _count(self, line: str) -> None:
        for pattern in _PASSED:
            if found := pattern.search(line):
                is_part = line.startswith("test result:")  # cargo: one line per target
                self.passed = int(found[1]) + ((self.passed or 0) if is_part else 0)
                return

    def _go(self, line: str) -> bool:
        """``--- FAIL: TestX/sub (0.00s)`` lines come before ``FAIL<tab>package``."""
        if found := re.match(r"^\s*--- FAIL: (\S+) \([\d.]+s\)$", line):
            if len(self._go_tests) < FAILED_MAX:
                self._go_tests.append(found[1])
            return True
        if not (found := re.match(r"^FAIL\t(\S+)(?: (\[.+\])|\t.*)?$", line)):
            return False
        package, note = found[1], found[2]
        for test in self._go_tests:
            self._add(f"{package} {test}")
        if not self._go_tests:
            self._add(f"{package} {note}" if note else package)
        self._go_tests = []
        return True

    def _go_json(self, line: str) -> bool:
        if not line.startswith('{"Time"'):
            return False
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if event.get("Action") == "fail":
            self._add(f"{event.get('Package', '')} {event.get('Test', '')}".strip())
        return True

    def _cargo(self, line: str) -> bool:
        """``test name ... FAILED`` under ``Running src/lib.rs (target/debug/deps/x-hash)``."""
        if found := re.match(r"^\s+(?:Running|Doc-tests) (.+?)(?: \(.*\))?$", line):
            self._cargo_target = found[1]
            return True
        if found := re.match(r"^test (.+?)(?: - should panic)? \.\.\. FAILED$", line):
            # Doc tests are named by file and line.
            name = re.sub(r" \(line \d+\)", "", found[1])
            self._add(f"{self._cargo_target} {name}".strip())
            return True
        return False

    def _jest(self, line: str) -> bool:
        """``FAIL src/a.test.js``, then ``  ● suite, name`` for each failed test in it."""
        if found := re.match(
            r"^\s*FAIL {1,2}(?:\S+ )??(\S+\.[cm]?[jt]sx?)(?: \(.*\)| \[.*\])?$", line
        ):
            self._jest_file = found[1]
            self._jest_files.setdefault(found[1], False)
            return True
        if found := re.match(r"^  ● (?!Console$)(.+)$", line):
            if not self._jest_file:
                return False
            self._jest_files[self._jest_file] = True
            self._add(f"{self._jest_file}: {found[1]}")
            return True
        return False

    def _tap(self, line: str) -> bool:
        """``not ok 3 - name``; the same name twice is two tests."""
        if not (found := re.match(r"^\s*not ok\b(?: \d+)?(?: -)? ?(.*?)(?: # time=.*)?$", line)):
            return False
        name = found[1] or "(without a name)"
        if not re.search(r"# (?:TODO|SKIP)\b", name, re.IGNORECASE):
            count = self._repeated[name] = self._repeated.get(name, 0) + 1
            self._add(name if count == 1 else f"{name} ({count})")
        return True


class Problems:
    """The same for lint and type checkers: one name per file and message, without lines."""

    passed: int | None = None

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._previous = ""

    def feed(self, raw: str) -> None:
        line = _COLOUR.sub("", raw[:LINE_CHARS_MAX].rstrip())
        if found := _PROBLEM.match(line):
            message = found[2] or self._previous  # ruff puts the message on the line before
            if len(self._names) < FAILED_MAX and message:
                self._names[f"{found[1]}: {message}"[:NAME_CHARS_MAX]] = None
        self._previous = line.strip()

    def names(self) -> list[str]:
        return list(self._names)
