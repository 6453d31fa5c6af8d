"""Journals of other formats, through the real program: named, refused and left as they are."""

from pathlib import Path

import pytest

from orchestrator.journal.codec import VERSION
from tests.e2e.cli_process import Home, make_home, the_one_line

JOURNALS = Path(__file__).resolve().parents[1] / "data" / "journals"
SAID = {
    "format-0": ("line 1", "format 0", "restore the file from a copy"),
    "format-2": ("line 1", "format 2", "use the version that wrote it"),
    "format-1-then-2": ("line 3", "format 2", "use the version that wrote it"),
    "format-none": ("line 1", "missing required field `v`", "restore the file from a copy"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = make_home(tmp_path_factory.mktemp("formats"))
    home.json("--run", "r1", "init-run")
    return home


def test_the_fixtures_are_of_every_format_but_the_present_one() -> None:
    assert VERSION == 1, "keep a journal of the format that was, as an older one that is read"
    assert {path.stem for path in JOURNALS.iterdir()} == set(SAID)


@pytest.mark.parametrize(
    ("name", "verb"),
    [(name, (verb,)) for name in SAID for verb in ("status", "pause")]
    + [("format-2", ("watch",)), ("format-1-then-2", ("run-headless", "--wait"))],
)
def test_another_format_is_named_and_nothing_is_changed(
    home: Home, name: str, verb: tuple[str, ...]
) -> None:
    journal = home.store("r1") / "events.jsonl"
    journal.write_bytes((JOURNALS / f"{name}.jsonl").read_bytes())
    beside = {path.name for path in journal.parent.iterdir()}
    is_long = verb[0] in ("watch", "run-headless")
    done = (home.orchestrator if is_long else home.call)("--run", "r1", *verb)
    assert done.returncode == 5
    told = the_one_line(done)
    assert all(words in told for words in ("events.jsonl", *SAID[name])), told
    assert journal.read_bytes() == (JOURNALS / f"{name}.jsonl").read_bytes()
    made = {path.name for path in journal.parent.iterdir()} - beside
    assert not [name for name in made if "torn" in name]
