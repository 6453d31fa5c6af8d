"""Positions: every path of a document has the line on which a person would look for it."""

import tomllib

from hypothesis import given, strategies as st

from adapters.project.toml_lines import lines_of, nearest_line

TEXT = '''# a comment with [brackets] = and "quotes"
schema = 1
[tasks]
source = "local" # [x]
[agent.models]
default = "a"
"with space" = 'b'
a.b = 2
[[task]]
id = "T1"
body = """
[not]
x = 1 \\"""
"""
depends_on = [
  "a", # , ]
  "b",
]
[[task]]
inline = {a = 1, b = [ {c = 2}, {d=3} ]}
[task.sub]
at = 1979-05-27
quoted = """"four""""
literal = \'\'\'
[no]\'\'\'
last = []
'''


def test_every_path_has_its_line() -> None:
    tomllib.loads(TEXT)
    assert lines_of(TEXT) == {
        ("schema",): 2,
        ("tasks",): 3,
        ("tasks", "source"): 4,
        ("agent",): 5,
        ("agent", "models"): 5,
        ("agent", "models", "default"): 6,
        ("agent", "models", "with space"): 7,
        ("agent", "models", "a"): 8,
        ("agent", "models", "a", "b"): 8,
        ("task",): 9,
        ("task", 0): 9,
        ("task", 0, "id"): 10,
        ("task", 0, "body"): 11,
        ("task", 0, "depends_on"): 15,
        ("task", 0, "depends_on", 0): 16,
        ("task", 0, "depends_on", 1): 17,
        ("task", 1): 19,
        ("task", 1, "inline"): 20,
        ("task", 1, "inline", "a"): 20,
        ("task", 1, "inline", "b"): 20,
        ("task", 1, "inline", "b", 0): 20,
        ("task", 1, "inline", "b", 0, "c"): 20,
        ("task", 1, "inline", "b", 1): 20,
        ("task", 1, "inline", "b", 1, "d"): 20,
        ("task", 1, "sub"): 21,
        ("task", 1, "sub", "at"): 22,
        ("task", 1, "sub", "quoted"): 23,
        ("task", 1, "sub", "literal"): 24,
        ("task", 1, "sub", "last"): 26,
    }


def test_windows_line_ends_count_once() -> None:
    assert lines_of("a = 1\r\nb = 2\r\n")[("b",)] == 2


def test_the_nearest_line_is_that_of_the_closest_table_around() -> None:
    lines = lines_of("[commands]\n[git]\n")
    assert nearest_line(lines, ("git", "base", 3)) == 2
    assert nearest_line(lines, ("nothing",)) is None


@given(st.text(alphabet="ab=[]{}\"'#,.\n\\ 1"))
def test_it_ends_whatever_it_is_given(text: str) -> None:
    assert all(line >= 1 for line in lines_of(text).values())
