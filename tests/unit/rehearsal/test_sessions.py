from pathlib import Path

from adapters.execution.rehearsal.sessions import (
    Session,
    Usage,
    count_start,
    find,
    mangled,
    transcript_path,
)
from tests.unit.rehearsal.agent import SESSION


def test_a_directory_is_mangled_as_the_client_does_it() -> None:
    # Seen with the client: a directory of this name.
    assert mangled("/tmp/h/wd_a.b c-é/x") == "-tmp-h-wd-a-b-c---x"


def test_a_session_remembers_what_it_was_charged(tmp_path: Path) -> None:
    path = transcript_path(str(tmp_path), "/w", SESSION)
    session = Session(SESSION, path)
    for usage in (Usage(1, 2, 3, 4, 0.5), Usage(10, 20, 30, 40, 0.25)):
        message = {"model": "m"}
        session.append({"type": "assistant", "message": message, "rehearsalUsage": list(usage)})
    session.append({"type": "result"})
    message = {"model": "m"}
    session.append({"type": "assistant", "message": message, "rehearsalUsage": [1, 1, 1, 1, 1.0]})
    with open(path, "a") as torn:
        torn.write('{"type":"assi')
    resumed = Session.resumed(path, path, SESSION)
    assert resumed.total == {"m": Usage(11, 22, 33, 44, 0.75)}
    assert resumed.since_result == {}, "killed before its result: the client forgets it"


def test_a_session_of_another_directory_is_copied_here(tmp_path: Path) -> None:
    config = str(tmp_path)
    Session(SESSION, transcript_path(config, "/a", SESSION)).append({"type": "user"})
    found = find(config, "/b", SESSION)
    assert found == transcript_path(config, "/a", SESSION)
    here = transcript_path(config, "/b", SESSION)
    Session.resumed(found, here, SESSION)
    assert find(config, "/b", SESSION) == here


def test_starts_are_counted_per_key_and_directory(tmp_path: Path) -> None:
    starts = [count_start(str(tmp_path), cwd, key) for cwd, key in
              (("/a", "T1 implement 1"), ("/a", "T1 implement 1"), ("/a", "T1 implement 11"),
               ("/b", "T1 implement 1"), ("/a", "T1 implement 1"))]  # fmt: skip
    assert starts == [1, 2, 1, 1, 3]
