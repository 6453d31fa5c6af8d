"""What install did is taken back only where the work left it exactly as it was."""

import itertools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from adapters.workspace import snapshot
from adapters.workspace.install import without_install
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import get
from tests.unit.steps.repository import Repo

Entry = tuple[str, str]
"""Mode and text, of a link its target."""
Files = Mapping[str, Entry]

FILE, OTHER, RUNNABLE, LINK = (
    ("100644", "one\n"),
    ("100644", "two\n"),
    ("100755", "one\n"),
    ("120000", "one"),
)


class Trees:
    """Commits and trees written and read as mappings, without a worktree."""

    def __init__(self, path: Path) -> None:
        self.repo = Repo(path, {"always.txt": "there\n"})
        self.git = Repository.open(self.repo.root).git
        self._blobs: dict[str, str] = {}

    def tree(self, files: Files) -> str:
        env = {"GIT_INDEX_FILE": str(self.repo.path / ".git" / "scratch")}
        lines = b""
        for name, (mode, text) in files.items():
            if text not in self._blobs:
                self._blobs[text] = self.git.line(
                    "hash-object", "-w", "--stdin", stdin=text.encode()
                )
            lines += os.fsencode(f"{mode} {self._blobs[text]}\t{name}\0")
        self.git("read-tree", "--empty", env=env)
        self.git("update-index", "-z", "--index-info", stdin=lines, env=env)
        return self.git("write-tree", env=env).decode().strip()

    def read(self, tree: str) -> dict[str, Entry]:
        found, texts = {}, {blob: text for text, blob in self._blobs.items()}
        for entry in filter(None, self.git("ls-tree", "-r", "-z", tree).split(b"\0")):
            facts, name = entry.split(b"\t", 1)
            mode, _, blob = facts.decode().split(" ")
            found[os.fsdecode(name)] = (mode, texts[blob])
        return found

    def rest(self, base: Files, installed: Files, worked: Files) -> dict[str, Entry]:
        start = self.repo.git("commit-tree", self.tree(base), "-m", "base")
        intake = self.repo.git("commit-tree", self.tree(installed), "-p", start, "-m", "intake")
        return self.read(without_install(self.git, self.tree(worked), intake))


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "repo")


def test_each_path_is_the_bases_where_the_work_left_it_as_install_did(trees: Trees) -> None:
    """Every way in which a path can be in base, install and work: one path for each."""
    states = [None, FILE, OTHER, RUNNABLE, LINK]
    base: dict[str, Entry] = {}
    installed: dict[str, Entry] = {}
    worked: dict[str, Entry] = {}
    wanted: dict[str, Entry] = {}
    for n, (b, i, w) in enumerate(itertools.product(states, repeat=3)):
        name = f"d{n % 7}/p{n}"
        rest = b if w == i else w
        for files, entry in ((base, b), (installed, i), (worked, w), (wanted, rest)):
            if entry is not None:
                files[name] = entry
    assert trees.rest(base, installed, worked) == wanted


ODD = (
    "a b",
    "line\nbreak",
    "tab\there",
    'quo"te',
    "\\",
    "ünï",
    os.fsdecode(b"\xff"),
    "-x",
    ":(top)y",
)


def test_names_of_every_kind_are_told_apart(trees: Trees) -> None:
    made = {f"{under}/{name}": FILE for name in ODD for under in ("made", "edited")}
    edited = {name: OTHER for name in made if name.startswith("edited/")}
    assert trees.rest({"a": FILE}, {"a": FILE, **made}, {"a": FILE, **made, **edited}) == {
        "a": FILE,
        **edited,
    }


@pytest.mark.parametrize(
    ("base", "installed", "worked", "wanted"),
    [
        # Install puts a directory in the place of a file, and a file in that of a directory.
        ({"x": FILE}, {"x/a": FILE}, {"x/a": FILE}, {"x": FILE}),
        ({"x/a": FILE}, {"x": FILE}, {"x": FILE}, {"x/a": FILE}),
        # The work adds to that directory, or changes that file: it needs it as it is.
        ({"x": FILE}, {"x/a": FILE}, {"x/a": FILE, "x/b": OTHER}, {"x/b": OTHER}),
        ({"x": FILE}, {"x/a": FILE}, {"x/a": OTHER}, {"x/a": OTHER}),
        ({"x/a": FILE}, {"x": FILE}, {"x": OTHER}, {"x": OTHER}),
        # The work puts one in the place of the other.
        ({}, {"x/a": FILE}, {"x": OTHER}, {"x": OTHER}),
        ({}, {"x": FILE}, {"x/a": OTHER}, {"x/a": OTHER}),
        ({"x": FILE}, {"x": OTHER}, {"x/a": FILE}, {"x/a": FILE}),
        ({"x/a": FILE, "x/b": FILE}, {"x/a": OTHER, "x/b": FILE}, {"x": FILE}, {"x": FILE}),
        # A link to a directory, as workspaces of npm have it, beside the work's own file.
        ({}, {"n/l": LINK, "n/p": FILE}, {"n/l": LINK, "n/p": FILE, "n/w": FILE}, {"n/w": FILE}),
        ({}, {"n/l": LINK}, {"n/l/w": FILE}, {"n/l/w": FILE}),
    ],
)
def test_nothing_of_the_work_gives_way_to_what_is_taken_back(
    trees: Trees, base: Files, installed: Files, worked: Files, wanted: Files
) -> None:
    kept = {"z": FILE}
    found = trees.rest({**kept, **base}, {**kept, **installed}, {**kept, **worked})
    assert found == {**kept, **wanted}


@pytest.mark.parametrize("installed", ["", "1" * 40, "start", "unborn"])
def test_where_nothing_is_known_of_an_install_the_tree_stays(trees: Trees, installed: str) -> None:
    tree = trees.tree({"a": FILE, "b": OTHER})
    if installed == "start":
        installed = trees.repo.git("commit-tree", tree, "-m", "no parent")
    elif installed == "unborn":
        first = trees.repo.git("commit-tree", tree, "-m", "base")
        installed = trees.repo.git("commit-tree", tree, "-p", first, "-m", "nothing installed")
    assert without_install(trees.git, tree, installed) == tree


def test_a_repository_that_install_checked_out_is_installs(trees: Trees, tmp_path: Path) -> None:
    repo = trees.repo
    start = repo.head
    path = repo.worktree(tmp_path / "w", "b")
    worktree = get(Repository.open(repo.root), path)
    Repo(Path(path, "vendor", "inner"), {"x": "x\n"})
    intake, _ = snapshot.keep(worktree, "refs/x/intake", "intake")
    repo.write({"work.txt": "w\n"}, cwd=path)
    rest = without_install(trees.git, snapshot.take(worktree), intake)
    assert repo.git("diff", "--name-only", start, rest) == "work.txt"
    shutil.rmtree(Path(path, "vendor"))
    assert without_install(trees.git, snapshot.take(worktree), intake) == rest
