import pytest

from adapters.execution.rehearsal.options import Options, Refusal, is_uuid, parse
from tests.unit.rehearsal.agent import SESSION


def parsed(*argv: str, as_root: bool = False, sandboxed: bool = False) -> Options:
    return parse(list(argv), as_root=as_root, sandboxed=sandboxed)


def test_reads_what_a_driver_passes() -> None:
    options = parsed(
        *("-p", "--output-format", "stream-json", "--verbose", "--session-id", SESSION),
        *("--model", "opus", "--effort", "high", "--max-budget-usd", "1.5", "--max-turns", "7"),
        *("--permission-mode", "acceptEdits", "--allowedTools", "Bash(git *)", "Edit"),
        *("--tools", "Read,Grep", "--json-schema", '{"type":"object"}', "--strict-mcp-config"),
    )
    assert options.stream
    assert (options.session_id, options.resume, options.model) == (SESSION, None, "opus")
    assert (options.max_budget_usd, options.max_turns) == (1.5, 7)
    assert options.allowed == ("Bash(git *)", "Edit")
    assert options.tools == frozenset({"Read", "Grep"})
    assert options.json_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--no-such-option"], "error: unknown option '--no-such-option'"),
        (["--model"], "error: option '--model <model>' argument missing"),
        (
            ["-p", "--output-format", "bogus"],
            "error: option '--output-format <format>' argument 'bogus' is invalid."
            " Allowed choices are text, json, stream-json.",
        ),
        (
            ["-p", "--output-format", "stream-json"],
            "Error: When using --print, --output-format=stream-json requires --verbose",
        ),
        (["--session-id", "x"], "Error: Invalid session ID. Must be a valid UUID."),
        (
            ["--session-id", SESSION, "--resume", SESSION],
            "Error: --session-id with --continue or --resume also needs --fork-session.",
        ),
        (
            ["--max-budget-usd", "x"],
            "error: option '--max-budget-usd <amount>' argument 'x' is invalid."
            " --max-budget-usd must be a number greater than 0",
        ),
    ],
)
def test_refuses_in_the_clients_words(argv: list[str], words: str) -> None:
    with pytest.raises(Refusal) as refused:
        parsed(*argv)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "argv", [["--dangerously-skip-permissions"], ["--permission-mode", "bypassPermissions"]]
)
def test_root_may_skip_permissions_in_a_sandbox_alone(argv: list[str]) -> None:
    with pytest.raises(Refusal, match="root/sudo"):
        parsed(*argv, as_root=True)
    assert parsed(*argv, as_root=True, sandboxed=True).permission_mode == "bypassPermissions"
    assert parsed(*argv).permission_mode == "bypassPermissions"


def test_tools_are_separated_by_commas_and_blanks_but_not_within_brackets() -> None:
    options = parsed("--allowedTools", "Bash(git commit *),Edit Read", "--verbose")
    assert options.allowed == ("Bash(git commit *)", "Edit", "Read")


def test_no_tools_at_all() -> None:
    assert parsed("--tools", "").tools == frozenset()
    assert parsed().tools is None


def test_a_uuid_is_one() -> None:
    assert is_uuid(SESSION)
    assert not is_uuid(SESSION[:-1])
    assert not is_uuid(SESSION.replace("1", "g"))
