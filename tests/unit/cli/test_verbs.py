"""Every command there is, and the line that leads to it."""

import pytest

from drivers.cli import arguments, parser
from drivers.cli.verbs import NOT_BUILT, VERBS
from orchestrator.core.errors import Usage


@pytest.mark.parametrize("name", VERBS)
def test_every_command_can_be_asked_for_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb = VERBS[name]
    with pytest.raises(SystemExit) as end:
        parser.parse(verb, verb.load(), ["--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: orchestrator {name}")
    assert "--run RUN" in said
    assert name in arguments.overview()


def test_global_options_may_stand_on_either_side() -> None:
    for line in ("--run r1 --json status", "status --run r1 --json", "--run=r1 status --json"):
        verb, rest = arguments.split(line.split())
        assert verb is VERBS["status"]
        args = parser.parse(verb, verb.load(), rest)
        assert (args.run, args.json, args.text) == ("r1", True, False)


def test_a_runs_name_is_not_taken_for_the_command() -> None:
    verb, rest = arguments.split(["--run", "status", "audit"])
    assert verb is VERBS["audit"]
    assert rest == ["--run", "status"]


def test_options_are_not_guessed_from_their_beginning() -> None:
    verb, rest = arguments.split(["stop", "--dra"])
    assert verb is not None
    with pytest.raises(Usage, match="did you mean --drain"):
        parser.parse(verb, verb.load(), rest)


def test_what_is_not_built_is_no_command() -> None:
    assert not NOT_BUILT & set(VERBS)
    with pytest.raises(Usage, match="not built yet"):
        arguments.find("dashboard")


def test_a_value_may_look_like_anything_after_two_dashes() -> None:
    verb, rest = arguments.split(["requeue", "--", "--odd"])
    assert verb is not None
    assert parser.parse(verb, verb.load(), rest).tasks == ["--odd"]


@pytest.mark.parametrize("words", [["init-run", "--lane"], ["init-run", "--mode"]])
def test_a_wrong_choice_is_told_the_right_ones_as_they_are_written(words: list[str]) -> None:
    verb, rest = arguments.split([*words, "big"])
    assert verb is not None
    with pytest.raises(Usage, match="choose from") as told:
        parser.parse(verb, verb.load(), rest)
    assert "<" not in str(told.value)
