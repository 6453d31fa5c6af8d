"""The virtual children: the client, and the program of the deterministic stages.

A child's conduct is drawn when it starts, from what its seed allows; then it prints, works,
charges the account and ends, as events on the machine.  Invariant: what it did is kept in a
Life, which no fault can change: the truth that the journal is compared with.
"""

import contextlib
import errno
import json
import math
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from adapters.execution.claude.cost import price_of
from orchestrator.core.model import Stage
from tests.simulation.machine import Machine, Process
from tests.simulation.promises import Promise, Violation

MODEL = "claude-sonnet-5"
PRICE = price_of(MODEL)
TOKENS_IN = 1000
HANGS_S = 1e6
DEAR = (2_000_000, 3_000_000)
"""Tokens of a call that costs more than four times what any stage is expected to."""
LATE_S = 1.0
"""Between a result line without its cost and the one that has it."""

OUTPUTS: dict[Stage, dict[str, Any]] = {
    Stage.INTAKE: {"start_commit": "s", "branch": "b", "worktree": "w"},
    Stage.SCOPE: {"feasible": True, "plan": ["do it"], "risks": []},
    Stage.IMPLEMENT: {"summary": "done", "files_changed": ["a"], "notes": ""},
    Stage.REVIEW: {"approved": True, "issues": [], "non_blocking": []},
}
REJECTED = {
    "approved": False,
    "issues": [{"severity": "major", "file": "a", "description": "wrong"}],
    "non_blocking": [],
}


@dataclass(frozen=True)
class Dispatch:
    """Who is started, as the name of its stem says it."""

    stem: str
    slug: str
    stage: Stage
    attempt: int
    number: int
    is_second: bool
    worktree: str

    @cached_property
    def key(self) -> str:
        return f"{self.slug}/{self.stage}/a{self.attempt}/d{self.number}"

    @classmethod
    def of(cls, words: dict[str, str]) -> "Dispatch":
        stem = words["stem"]
        _, slug, name = stem.rsplit("/", 2)
        name, *more = name.split(".")
        stage, attempt = name.split("-attempt")
        numbers = [int(part[1:]) for part in more if part.startswith("d")]
        return cls(
            stem=stem,
            slug=slug,
            stage=Stage(stage),
            attempt=int(attempt),
            number=numbers[0] if numbers else 1,
            is_second="s2" in more,
            worktree=slug,
        )


@dataclass
class Session:
    """The account's books for a session; they outlive every process."""

    spent: int = 0
    """Output tokens of calls that came to a result: the client forgets what others used."""
    calls: int = 0
    worked: int = 0
    """Calls that came to a result."""
    users: set[Process] = field(default_factory=set)


@dataclass
class Life:
    """What one child did, for the witness."""

    dispatch: Dispatch
    conduct: str
    process: Process
    began_at: float
    session: str = ""
    finished: bool = False
    """It came to the end of its conduct: nobody ended it."""
    tokens: int = 0
    """Of its own, as its next result line says it."""
    spent: int = 0
    result_line: bytes = b""
    refused: bool = False
    """It did not begin: wrong about its session."""
    members: list[Process] = field(default_factory=list)
    """The child, and what it left behind."""


Choose = Callable[[random.Random, Dispatch], str]
"""The conduct of a child: a name of CONDUCTS."""


class Agents:
    """All children of a run, and what their account and worktrees hold."""

    def __init__(self, machine: Machine, rng: random.Random, choose: Choose) -> None:
        self.machine = machine
        self.rng = rng
        self.choose = choose
        self.lives: list[Life] = []
        self.by_key: dict[str, list[Life]] = {}
        self.by_process: dict[Process, Life] = {}
        self.sessions: dict[str, Session] = {}
        self.trees: dict[str, int] = {}
        self.lasts_s_max = 20.0
        self.spawn_fails_with = 0
        """An errno that starting any program meets: there is none, or it is not one."""
        self.limit_until = 0.0
        """Wall clock: the account's limit is used up until then; every call meets it."""
        self.epidemics: dict[str, range] = {}
        """Conduct -> which of all clients, by their number, have it."""
        self.clients = 0

    def make(self, process: Process, words: dict[str, str]) -> "Child":
        if self.spawn_fails_with:
            is_missing = self.spawn_fails_with == errno.ENOENT
            self.machine.struck["program missing" if is_missing else "exec format error"] += 1
            raise OSError(self.spawn_fails_with, os.strerror(self.spawn_fails_with))
        dispatch = Dispatch.of(words)
        conduct = self.choose(self.rng, dispatch)
        life = Life(dispatch, conduct, process, self.machine.clock.now, members=[process])
        self.lives.append(life)
        self.by_key.setdefault(dispatch.key, []).append(life)
        self.by_process[process] = life
        self.machine.struck[f"child {conduct}"] += 1
        kind = StepsChild if dispatch.stage.is_deterministic else ClientChild
        return kind(self, life, words["argv"].split("\0"))


class Child:
    def __init__(self, agents: Agents, life: Life, argv: list[str]) -> None:
        self.agents = agents
        self.life = life
        self.argv = argv
        self.process = life.process
        self.machine = agents.machine
        self.rng = agents.rng
        self.process.on_signal = self._heard
        self.process.idles = life.conduct == "hangs"

    def begin(self) -> None:
        raise NotImplementedError

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        def if_alive() -> None:
            if self.process.is_alive:
                act()

        self.machine.clock.after(delay_s, if_alive)

    def say(self, *lines: bytes) -> None:
        """Where a full disk takes only a part of it, or nothing, the child dies of that."""
        data = b"\n".join([*lines, b""])
        try:
            took = self.machine.write(f"{self.life.dispatch.stem}.stream.jsonl", data)
        except OSError:
            took = 0
        if took < len(data):
            self.machine.end(self.process, status=1)

    def say_result(self, line: bytes) -> None:
        self.life.result_line = line
        self.say(line)

    def complain(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self.machine.write(f"{self.life.dispatch.stem}.stderr.log", text.encode() + b"\n")

    def end(self, code: int = 0) -> None:
        if self.process.is_alive:
            self.life.finished = True
            self.machine.end(self.process, status=code)

    def lasts_s(self) -> float:
        return self.rng.uniform(0.1, self.agents.lasts_s_max)

    def change_tree(self) -> None:
        trees = self.agents.trees
        trees[self.life.dispatch.worktree] = trees.get(self.life.dispatch.worktree, 0) + 1

    def leave_somebody(self) -> None:
        try:
            left = self.machine.start(
                "grandchild", parent=self.process, environment=self.process.environment
            )
        except OSError:
            return
        left.on_signal = lambda number: None  # deaf to all but SIGKILL
        self.life.members.append(left)

    def _heard(self, number: int) -> None:
        if self.life.conduct == "deaf":
            return
        if number in (signal.SIGINT, signal.SIGTERM):
            self.after(0.2, lambda: self.machine.end(self.process, status=-number))


class StepsChild(Child):
    def begin(self) -> None:
        act = {
            "success": self._succeed,
            "leaves": self._succeed,
            "deaf": self._succeed,
            "tests_failed": self._fail_tests,
            "infrastructure": self._fail_machine,
            "dies": self._die,
            "silent": self.end,
            "hangs": lambda: None,
        }[self.life.conduct]
        self.after(HANGS_S if self.life.conduct == "hangs" else self.lasts_s(), act)

    def _succeed(self) -> None:
        if self.life.conduct == "leaves":
            self.leave_somebody()
        output = OUTPUTS.get(self.life.dispatch.stage)
        self._result({"status": "success", "output": output})

    def _fail_tests(self) -> None:
        error = f"test_{self.rng.choice('abc')} fails {self.rng.random()}"
        evidence = {"failed": [f"t{self.rng.randrange(1000)}"]}
        self._result(
            {"status": "failure", "cause": "tests_failed", "error": error, "evidence": evidence}
        )

    def _fail_machine(self) -> None:
        self._result({"status": "failure", "cause": "infrastructure", "error": "no network"})

    def _die(self) -> None:
        self.life.finished = True
        self.machine.end(self.process, status=-signal.SIGSEGV)

    def _result(self, result: dict[str, Any]) -> None:
        self.say_result(json.dumps({"type": "stage_result", **result}).encode())
        self.end(0 if result["status"] == "success" else 1)


class ClientChild(Child):
    def begin(self) -> None:
        flag = "--resume" if "--resume" in self.argv else "--session-id"
        name = self.life.session = self.argv[self.argv.index(flag) + 1]
        transcript = f"/transcripts/{name}.jsonl"
        if (transcript in self.machine.files) != (flag == "--resume"):
            said = (
                f"No conversation found with session ID: {name}"
                if flag == "--resume"
                else f"Error: Session ID {name} is already in use."
            )
            self.life.refused = True
            self.complain(said)
            self.after(0.3, lambda: self.end(1))
            return
        self.session = self.agents.sessions.setdefault(name, Session())
        if any(user.is_alive for user in self.session.users):
            raise Violation(Promise.ONCE, f"two children work in session {name}")
        self.session.users = {self.process}
        self.session.calls += 1
        self.agents.clients += 1
        for conduct, struck in self.agents.epidemics.items():
            if self.agents.clients in struck:
                self.machine.struck[f"child of an epidemic: {conduct}"] += 1
                self.life.conduct = conduct
        if self.machine.wall() < self.agents.limit_until and self.life.conduct not in _AT_ONCE:
            self.machine.struck["child of a usage limit storm"] += 1
            self.life.conduct = "limit"
        lasts_s = self.lasts_s()
        if self.life.conduct in _AT_ONCE or self.life.conduct == "limit":
            self.after(1.0, getattr(self, f"_{self.life.conduct}"))
            return
        self.after(min(0.5, lasts_s / 4), self._work)
        self.after(HANGS_S if self.life.conduct == "hangs" else lasts_s, self._finish)

    def _work(self) -> None:
        """The first answer: from here on there is a transcript, and money is spent."""
        name = self.life.session
        self.machine.create(f"/transcripts/{name}.jsonl").sync()
        tokens = self.rng.randint(*(DEAR if self.life.conduct == "dear" else (1000, 40_000)))
        self.life.tokens = self.life.spent = tokens
        if self.life.conduct in _WORKS_ON and _usd(tokens, 1) > self._budget_usd():
            self.life.conduct = "budget"  # it has passed its limit with this turn
        lines = [_INIT % name.encode()]
        if self.life.conduct == "garbage":
            lines += [b"\xff\xfe\x00 not json", b"\x00" * 50, b'{"type":"news","x":1}']
        if self.rng.random() < 0.1:
            lines.append(_WINDOW % (self.rng.uniform(0, 0.6), self.machine.wall() + 3000))
        number = b"%d" % self.session.calls
        said = _ASSISTANT % (name[:8].encode() + b"-" + number, TOKENS_IN, tokens)
        lines += [said] * (2 if self.life.conduct == "repeats_usage" else 1)
        self.say(*lines)
        if self.life.dispatch.stage is Stage.IMPLEMENT and self.life.conduct != "no_change":
            self.change_tree()

    def _budget_usd(self) -> float:
        flag = "--max-budget-usd"
        return float(self.argv[self.argv.index(flag) + 1]) if flag in self.argv else math.inf

    def _finish(self) -> None:
        conduct = self.life.conduct
        stage = self.life.dispatch.stage
        if conduct == "dies":
            self.life.finished = True
            self.machine.end(self.process, status=-signal.SIGSEGV)
            return
        if conduct == "silent":
            self.end(0)
            return
        if conduct == "work_error":
            self._result(is_error=True, subtype="success", text=f"gave up {self.rng.random()}")
        elif conduct == "invalid":
            self._result(output={"nonsense": self.rng.random()})
        elif conduct == "rejected":
            self._result(output=REJECTED)
        elif conduct == "budget":
            self._result(is_error=True, subtype="error_max_budget_usd", text="Reached maximum")
        elif conduct == "infeasible":
            self._result(output={"feasible": False, "plan": [], "risks": []})
        elif conduct == "late_cost":
            self._say_result(b"", "success", False, "", OUTPUTS[stage])
            self.after(LATE_S, lambda: self._result(output=OUTPUTS[stage]))
            self.after(LATE_S, self.end)
            return
        else:
            self._result(output=OUTPUTS[stage])
        if conduct == "twice":
            self._result(output=OUTPUTS[stage])
        if conduct == "torn":
            self.machine.files[f"{self.life.dispatch.stem}.stream.jsonl"].data += b'{"type":"res'
        if conduct == "loses_session":
            self.machine.files.pop(f"/transcripts/{self.life.session}.jsonl", None)
        if conduct in ("leaves", "twice"):
            self.leave_somebody()
        if conduct != "lingers":
            self.end(0)

    def _limit(self) -> None:
        agents = self.agents
        if agents.limit_until <= self.machine.wall():
            agents.limit_until = self.machine.wall() + self.rng.uniform(5, 200)
        if self.rng.random() < 0.8:
            self.say(_REJECTED_WINDOW % agents.limit_until)
        self._failed("You've hit your limit", b'"api_error":"usage_limit_reached",')

    def _idle(self) -> None:
        """Success, and nothing was done; each time in other words, so that no two are alike."""
        self.say(_INIT % self.life.session.encode())
        words = "".join(self.rng.choices("abcdefgh", k=12))
        self.say_result(_IDLE % words.encode())
        self.end(0)

    def _outage(self) -> None:
        self._failed("Overloaded", b'"api_error_status":529,')

    def _unauthorized(self) -> None:
        self._failed("Not logged in", b'"api_error_status":401,')

    def _failed(self, text: str, more: bytes) -> None:
        self.say(_INIT % self.life.session.encode())
        self.say_result(_FAILED % (more, text.encode()))
        self.end(1)

    def _result(
        self,
        *,
        output: dict[str, Any] | None = None,
        is_error: bool = False,
        subtype: str = "success",
        text: str = "",
    ) -> None:
        own = self.life.tokens
        self.session.spent += own
        self.session.worked += own > 0
        spent = self.session.spent
        total_usd = _usd(spent, self.session.worked)
        if self.life.conduct in ("no_cost", "repeats_usage"):
            cost = b""
        elif self.life.conduct == "negative_cost":
            cost = b'"total_cost_usd":-1,'
        else:
            # ``own`` is what a client of this version says of this call alone.
            usage = b'{"%s":{"inputTokens":%d,"outputTokens":%d,"costUSD":%.9f}}'
            name = MODEL.encode()
            cost = b'"total_cost_usd":%.9f,"modelUsage":' % total_usd
            cost += usage % (name, TOKENS_IN * self.session.worked, spent, total_usd)
            calls = int(own > 0)
            own_usage = usage % (name, TOKENS_IN * calls, own, _usd(own, calls))
            cost += b',"model_usage_since_last_result":' + own_usage + b","
        self.life.tokens = 0
        self._say_result(cost, subtype, is_error, text, output)

    def _say_result(
        self, cost: bytes, subtype: str, is_error: bool, text: str, output: dict[str, Any] | None
    ) -> None:
        self.say_result(
            b'{"type":"result",%s"subtype":"%s","is_error":%s,"result":%s,"num_turns":2,'
            b'"structured_output":%s}'
            % (
                cost,
                subtype.encode(),
                b"true" if is_error else b"false",
                json.dumps(text).encode(),
                json.dumps(output).encode(),
            )
        )


_WORKS_ON = frozenset({"success", "leaves", "garbage", "lingers", "deaf", "loses_session"})
"""Conducts that a limit on money ends."""
_AT_ONCE = frozenset({"limit", "outage", "unauthorized", "idle"})
"""It fails before it works, and costs nothing."""

_INIT = (
    b'{"type":"system","subtype":"init","session_id":"%s","model":"claude-sonnet-5",'
    b'"claude_code_version":"2.1.332","apiKeySource":"none"}'
)
_ASSISTANT = (
    b'{"type":"assistant","message":{"id":"%s","model":"claude-sonnet-5",'
    b'"content":[{"type":"text","text":"working"}],'
    b'"usage":{"input_tokens":%d,"output_tokens":%d}}}'
)
_WINDOW = (
    b'{"type":"rate_limit_event","rate_limit_info":{"status":"allowed",'
    b'"rateLimitType":"five_hour","utilization":%.3f,"resetsAt":%.1f}}'
)
_REJECTED_WINDOW = (
    b'{"type":"rate_limit_event","rate_limit_info":{"status":"rejected",'
    b'"rateLimitType":"five_hour","utilization":1.0,"resetsAt":%.3f}}'
)
_IDLE = (
    b'{"type":"result","subtype":"success","is_error":false,"result":"%s","num_turns":0,'
    b'"total_cost_usd":0}'
)
_FAILED = (
    b'{"type":"result",%s"subtype":"success","is_error":true,"result":"%s","num_turns":1,'
    b'"total_cost_usd":0}'
)


def _usd(tokens_out: int, calls: int) -> float:
    return (tokens_out * PRICE.output + TOKENS_IN * calls * PRICE.input) / 1e6
