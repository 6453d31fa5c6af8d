"""What drivers of the client meet, each kind as a task of a real run: cause, attempts, cost.

docs/failure-modes.md is the table of these; tests/unit/test_failure_modes.py holds it to them.
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cli_process import git, lines
from tests.e2e.failure_modes import RUN, Kind, Played, play

pytestmark = pytest.mark.slow


def fault(name: str, **params: object) -> str:
    fields = "".join(f", {key} = {json.dumps(value)}" for key, value in params.items())
    return f'fault = {{ name = "{name}"{fields} }}'


# -- not the work's fault: the same attempt again -------------------------------------------------

CRASHED_THEN = f"start = 1\n{fault('crash')}\n---\nstart = 2\n"
PASSES = {
    "killed": Kind(fault("crash"), ("crash",)),
    "killed-in-tool": Kind(fault("crash_in_tool", seconds=600), ("crash",)),
    "overloaded": Kind(fault("overloaded"), ("outage",)),
    "cut-mid-response": Kind(fault("cut_mid_response"), ("outage",)),
    "id-in-use": Kind(fault("session_in_use")),
    "session-unknown": Kind(CRASHED_THEN + fault("session_unknown"), ("crash", "session_lost")),
    "session-renamed": Kind(CRASHED_THEN + fault("session_renamed"), ("crash",)),
    "context-full": Kind(fault("context_full"), ("session_lost",)),
    "compaction-fails": Kind(fault("compaction", fails=True), ("session_lost",)),
    "broken-history": Kind(fault("broken_history"), ("session_lost",)),
    "terminated": Kind(fault("crash", signal=15), ("crash",), "review"),
    "no-result": Kind(fault("no_result"), ("crash",), "review"),
    "exit-in-the-middle": Kind(fault("exit_without_result"), ("crash",), "review"),
    "torn-tail": Kind(fault("truncated_tail"), ("crash",), "review"),
    "unheard": Kind(fault("goes_on_unheard"), ("crash",), "review"),
    "unreachable": Kind(fault("unreachable"), ("outage",), "review"),
    "throttled": Kind(fault("throttled"), ("outage",), "review"),
    "new-words": Kind(fault("new_words"), ("outage",), "review"),
    "not-verified": Kind(
        fault("startup_failure", reason="org_config_required_unavailable"), ("outage",), "review"
    ),
}
LOOP = Kind("\n---\n".join(f"start = {n}\n{fault('crash')}" for n in (1, 2, 3)), ("crash",) * 3)


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Played:
    kinds = PASSES | {"crash-loop": LOOP}
    return play(tmp_path_factory.mktemp("passing"), kinds, settings={"dispatches_max": "3"})


@pytest.mark.parametrize("name", PASSES)
def test_is_tried_again_and_spends_no_attempt(passing: Played, name: str) -> None:
    assert passing.causes(name) == (*PASSES[name].causes, None)
    assert passing.spent(name) == 0
    assert passing.state(name) == "completed"


def test_a_crash_loop_is_bounded(passing: Played) -> None:
    assert passing.causes("crash-loop") == LOOP.causes
    assert passing.state("crash-loop") == "failed"
    assert passing.status == 6


def test_what_a_killed_client_leaves_running_is_ended(passing: Played) -> None:
    exit_ = passing.of("killed-in-tool")[0]["exit"]
    assert exit_["descendants_ended"] >= 1
    assert exit_.get("survivors", 0) == 0


@pytest.mark.parametrize("name", ["killed", "overloaded", "cut-mid-response", "session-renamed"])
def test_the_session_goes_on(passing: Played, name: str) -> None:
    assert len(set(passing.sessions(name))) == 1
    again = json.loads(passing.file(name, "attempt1.d2.work.json").read_text())
    assert again["resume"] is True


def test_an_id_that_is_taken_is_resumed_within_the_dispatch(passing: Played) -> None:
    assert len(passing.sessions("id-in-use")) == 1
    assert passing.file("id-in-use", "attempt1.s2.stream.jsonl").exists()


@pytest.mark.parametrize(
    "name", ["session-unknown", "context-full", "compaction-fails", "broken-history"]
)
def test_a_session_that_cannot_go_on_hands_over(passing: Played, name: str) -> None:
    sessions = passing.sessions(name)
    assert sessions[-1] != sessions[0]
    prompt = passing.file(name, f"attempt1.d{len(sessions)}.prompt.txt").read_text()
    assert "You take this over" in prompt
    assert f"> +Task {name}" in prompt, "what is in the worktree"
    refs = git(passing.home.repository, "for-each-ref", "--format=%(refname)")
    assert f"refs/orchestrator/{RUN}/{name}/salvage-" in refs


def test_the_bill_is_the_sum_of_the_sessions(passing: Played) -> None:
    """Whatever died, was resumed, or was charged before it failed."""
    spent: dict[str, float] = {}
    for path in (passing.home.path / "home" / ".claude" / "projects").glob("*/*.jsonl"):
        used = [line["rehearsalUsage"] for line in lines(path) if line["type"] == "assistant"]
        spent[path.stem] = max(spent.get(path.stem, 0.0), sum(usage[4] for usage in used))
    # The renamed session is a copy: what it began with was charged under its first name.
    (renamed,) = {r["session_id"] for r in passing.of("session-renamed") if not r.get("cause")}
    original = passing.sessions("session-renamed")[0]
    if renamed != original:
        spent[original] = 0.0
    billed = passing.home.json("--run", RUN, "status")["cost"]["total_usd"]
    asked = [e["cost"] for e in passing.events if e.get("cost") and e.get("cause") == "crash"]
    # Killed before it was answered: its prompt is taken to have been sent, until a later total
    # says otherwise.
    unanswered = sum(cost["cost_usd"] for cost in asked if not cost.get("output_tokens"))
    known = sum(spent.values())
    assert known - 1e-9 <= billed <= known + unanswered + 1e-9


def test_the_books_are_in_order(passing: Played) -> None:
    audit = passing.home.json("--run", RUN, "audit")
    assert audit["clean"]
    assert audit["events_audit"]["attempts_spent"] == 0


# -- hung, or only slow --------------------------------------------------------------------------

STALLS = {
    "stalls": Kind(fault("hang"), ("crash",)),
    "long-tool": Kind(
        'do = [{ write = "a.txt", text = "a" }, { run = "sleep 10" }, { read = "a.txt" }]'
    ),
    "client-waits": Kind(fault("retries", retries=1, delay_s=10)),
    "says-nothing": Kind(fault("silent_start"), ("crash",), "review"),
}


@pytest.fixture(scope="module")
def stalling(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(
        tmp_path_factory.mktemp("stalling"),
        STALLS,
        project='allowed_tools = ["Bash"]\n',
        settings={"idle_s": "5", "first_event_s": "5"},
    )


@pytest.mark.parametrize("name", STALLS)
def test_what_hangs_is_stopped_and_what_is_slow_is_not(stalling: Played, name: str) -> None:
    assert stalling.causes(name) == (*STALLS[name].causes, None)
    assert stalling.spent(name) == 0
    if STALLS[name].causes:
        first = stalling.of(name)[0]
        assert first["exit"]["reason"] == "hung"
        assert first["evidence"]["stall"]


# -- odd, and no failure -------------------------------------------------------------------------


class Odd(NamedTuple):
    faults: str
    evidence: dict[str, object]
    stage: str = "implement"


FINE = {
    "hangs-after-result": Odd(fault("hang_after_result", deaf=True), {}),
    "server-left": Odd(fault("leaves_shell"), {"background_tasks": 1}),
    "stdout-held": Odd(fault("grandchild_holds_stdout", seconds=600), {}),
    "orphans": Odd(fault("orphan", count=5, seconds=600, deaf=True), {}),
    "compaction": Odd(fault("compaction"), {}),
    "paid-credits": Odd(fault("overage"), {"using_overage": True}),
    "another-model": Odd(fault("another_model"), {"another_model": "claude-haiku-4-5"}),
    "denied": Odd(fault("denied", tool="Bash"), {"denied_tools": ["Bash"]}),
    "writes-lost": Odd(fault("writes_lost"), {}),
    "transcript-lost": Odd(fault("transcript_lost"), {}),
    "slow-start": Odd(fault("slow", seconds=0.5), {}),
    "killed-after-result": Odd(fault("killed_after_result"), {}),
    "noise": Odd(fault("noise"), {"unreadable_lines": 4}, "review"),
    "unknown-types": Odd(fault("unknown_types"), {}, "review"),
    "control-frames": Odd(fault("control_frames"), {}, "review"),
    "array": Odd(fault("as_array"), {}, "review"),
    "huge-line": Odd(fault("huge_line", bytes=20_000_000), {"oversize_lines": 1}, "review"),
    "split-characters": Odd(fault("split_characters"), {}, "review"),
    "limit-quoted": Odd(fault("limit_words"), {}, "review"),
    "stderr-flood": Odd(fault("stderr_flood"), {}, "review"),
    "two-results": Odd(fault("two_results"), {}, "review"),
    "another-turn": Odd(fault("another_turn"), {}, "review"),
    "wrong-status": Odd(fault("wrong_status"), {}, "review"),
    "client-retries": Odd(fault("retries", retries=3, delay_s=0.2), {"api_retries": 3}, "review"),
}


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> Played:
    kinds = {name: Kind(odd.faults, stage=odd.stage) for name, odd in FINE.items()}
    return play(tmp_path_factory.mktemp("fine"), kinds, settings={"allow_overage": "true"})


@pytest.mark.parametrize("name", FINE)
def test_the_result_is_taken_at_its_word(fine: Played, name: str) -> None:
    (record,) = fine.of(name)
    assert record.get("cause") is None
    evidence, wanted = record["evidence"], FINE[name].evidence
    assert {key: evidence.get(key) for key in wanted} == wanted
    assert record["cost"]["cost_usd"] > 0
    assert record["exit"].get("survivors", 0) == 0
    assert fine.state(name) == "completed"


def test_left_over_processes_are_ended_with_their_stage(fine: Played) -> None:
    assert fine.of("orphans")[0]["exit"]["descendants_ended"] >= 5
    assert fine.of("stdout-held")[0]["exit"]["descendants_ended"] >= 1


def test_a_child_that_hangs_after_its_result_is_ended_soon(fine: Played) -> None:
    for name in ("hangs-after-result", "server-left"):
        record = fine.of(name)[0]
        assert record["exit"]["duration_s"] < 30


@pytest.mark.parametrize("name", ["writes-lost", "transcript-lost"])
def test_a_transcript_that_is_lost_is_known_to_be(fine: Played, name: str) -> None:
    assert fine.of(name)[0]["session_lost"] is True


def test_a_person_is_told_of_another_model_and_of_paid_credits(fine: Played) -> None:
    said = fine.stderr.splitlines()
    assert any("task=another-model" in s and "another_model=claude-haiku" in s for s in said)
    assert any("task=paid-credits" in s and "on_paid_credits=True" in s for s in said)


# -- a verdict about the work: one attempt is spent -----------------------------------------------

SPENDS = {
    "schema-violation": Kind(fault("schema_violation"), ("invalid_output",)),
    "schema-missing": Kind(fault("schema_missing"), ("invalid_output",)),
    "question": Kind(fault("asks"), ("invalid_output",)),
    "zero-work": Kind(fault("zero_work"), ("invalid_output",)),
    "subagents-lost": Kind(fault("loses_subagents"), ("invalid_output",)),
    "refusal": Kind(fault("refusal"), ("work_error",)),
    "max-turns": Kind(fault("max_turns"), ("work_error",)),
    "over-budget": Kind(fault("max_budget"), ("budget",)),
    "hangs": Kind(fault("hang"), ("timeout",)),
    "deaf": Kind(fault("ignores_signals"), ("timeout",), "review"),
    "silent-start": Kind(fault("silent_start"), ("timeout",), "review"),
    "tool-denied": Kind('do = [{ run = "git push --force" }]', ("no_change",)),
}


@pytest.fixture(scope="module")
def spending(tmp_path_factory: pytest.TempPathFactory) -> Played:
    deadline = "[stages.implement]\ntimeout_s = 5\n[stages.review]\ntimeout_s = 5\n"
    return play(
        tmp_path_factory.mktemp("spending"), SPENDS, once="attempt = 1", project=deadline, at_once=6
    )


@pytest.mark.parametrize("name", SPENDS)
def test_spends_an_attempt_and_says_why(spending: Played, name: str) -> None:
    assert spending.causes(name) == (*SPENDS[name].causes, None)
    assert spending.spent(name) == 1
    prompt = spending.file(name, "attempt2.prompt.txt").read_text()
    if SPENDS[name].stage == "implement":
        assert f"implement attempt 1: {SPENDS[name].causes[0]}" in prompt
    assert spending.state(name) == "completed"


def test_a_question_is_quoted_to_the_next_attempt(spending: Played) -> None:
    prompt = spending.file("question", "attempt2.prompt.txt").read_text()
    assert "shall I use tabs or spaces?" in prompt


def test_a_refusal_is_not_resumed(spending: Played) -> None:
    assert len(set(spending.sessions("refusal"))) == 2
    assert len(set(spending.sessions("max-turns"))) == 1


def test_a_deadline_ends_everything(spending: Played) -> None:
    for name in ("hangs", "deaf", "silent-start"):
        exit_ = spending.of(name)[0]["exit"]
        assert (exit_["reason"], exit_.get("survivors", 0)) == ("deadline", 0)


def test_a_denied_tool_is_named(spending: Played) -> None:
    assert "it was denied Bash" in spending.of("tool-denied")[0]["error"]


# -- what every child would meet: the run pauses ---------------------------------------------------


def late(name: str, **params: object) -> str:
    """Once all are at work: after the first pause nothing would start."""
    fields = "".join(f", {key} = {json.dumps(value)}" for key, value in params.items())
    return f'fault = [{{ name = "slow", seconds = 3 }}, {{ name = "{name}"{fields} }}]'


TOO_OLD = "error: unknown option '--permission-prompts'\n"
PAUSES = {
    "key-invalid": Kind(late("auth_failed"), ("auth",)),
    "not-logged-in": Kind(late("not_logged_in"), ("auth",)),
    "account-refused": Kind(late("account_refused"), ("auth",)),
    "no-credit": Kind(late("no_credit"), ("billing",)),
    "no-such-model": Kind(late("no_such_model"), ("misconfigured",)),
    "config-broken": Kind(late("startup_failure"), ("misconfigured",)),
    "client-too-old": Kind(late("exit_at_once", stderr=TOO_OLD), ("misconfigured",)),
}


@pytest.fixture(scope="module")
def pausing(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("pausing"), PAUSES, at_once=len(PAUSES))


@pytest.mark.parametrize("name", PAUSES)
def test_pauses_the_run_and_spends_nothing(pausing: Played, name: str) -> None:
    assert pausing.causes(name) in (PAUSES[name].causes, ()), "one may pause before another starts"
    assert pausing.spent(name) == 0


def test_the_run_is_paused_once_with_the_remedy(pausing: Played) -> None:
    assert pausing.status == 3
    (paused,) = [e for e in pausing.events if e["type"] == "run_paused"]
    assert f"; then: orchestrator --run {paused['run_id']} unpause" in paused["reason"]
    assert any(pausing.causes(name) for name in PAUSES)


def test_a_child_on_another_key_is_stopped_at_once(tmp_path: Path) -> None:
    billed = Kind('fault = ["another_key", { name = "hang", after = 0 }]')
    played = play(tmp_path, {"another-key": billed})
    assert played.status == 3
    (record,) = played.of("another-key")
    assert record["cause"] == "misconfigured"
    assert "bills an API key (ANTHROPIC_API_KEY), and a subscription is to pay" in record["error"]
    assert record["exit"]["duration_s"] < 60, "its deadline is an hour away"


# -- the account's limits -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Played:
    says = "Claude AI usage limit reached|{epoch}"
    old = fault("rate_limited", says=says, event=False, resets_in_s=1.2)
    account = "[account]\nfive_hour = 0.5\nlimit_at_call = 4\nlimit_s = 1.2\nlate_s = 1.0\n"
    kinds = {"a": Kind("duration_s = 0"), "b": Kind("duration_s = 0"), "old-words": Kind(old)}
    return play(tmp_path_factory.mktemp("limited"), kinds, top=account, at_once=3)


def test_a_limit_is_waited_for_by_all_and_costs_nothing(limited: Played) -> None:
    hit = [e for e in limited.events if e.get("cause") == "limit"]
    assert hit
    assert limited.status == 0, limited.stderr[-2000:]
    assert all(limited.spent(name) == 0 for name in ("a", "b", "old-words"))
    assert sum(e["cost"]["cost_usd"] for e in hit if "cost" in e) == 0
    cooldowns = [e for e in limited.events if e["type"] == "cooldown_started"]
    assert cooldowns


def test_a_limit_in_the_words_of_an_older_client(limited: Played) -> None:
    first = limited.of("old-words")[0]
    assert first["cause"] == "limit"
    assert "usage limit reached|" in first["error"]


def test_a_limit_that_outlasts_its_reset_is_probed_by_one(limited: Played) -> None:
    """Between the last rejection and the next answer one call is out at a time."""
    hits = [e["seq"] for e in limited.events if e.get("cause") == "limit"]
    opened = [e["seq"] for e in limited.events if e["type"] == "cooldown_ended"]
    out, most = 0, 0
    for event in limited.events:
        if event.get("stage") not in ("implement", "review"):
            continue
        out += (event["type"] == "stage_dispatched") - (event["type"] == "stage_recorded")
        if hits[-1] < event["seq"] <= opened[-1]:
            most = max(most, out)
    assert most == 1


def test_a_login_that_expires_in_the_middle_is_tried_once_more(tmp_path: Path) -> None:
    review = f'[[call]]\nstage = "review"\nstart = 1\n{fault("login_expired")}'
    played = play(tmp_path, {"a": Kind("duration_s = 0")}, top=review)
    assert played.status == 0, played.stderr[-2000:]
    reviews = [e for e in played.events if e["type"] == "stage_recorded" and e["stage"] == "review"]
    assert [review.get("cause") for review in reviews] == ["auth", None]
    assert not [e for e in played.events if e["type"] == "run_paused"]
