"""What one try at a stage leaves to the next: the worktree, what it is told, what it is held to."""

import json

import pytest

from drivers.stages import Dispatched, Errand, make_errand, verify
from orchestrator.core import steer
from orchestrator.core.decide import decide
from orchestrator.core.model import (
    Cause,
    Checkpoint,
    Ending,
    Report,
    ResultStatus,
    SessionId,
    Stage,
)
from orchestrator.core.plan import StartStage
from orchestrator.core.work import branch_of, worktree_of
from tests.fakes.workspace import FakeWorkspace
from tests.simulation.driving import task
from tests.simulation.world import SimHost, World, success
from tests.unit.test_decide import NOW, A, Run, failing

SALVAGED = "refs/orchestrator/r/a/salvage-"


class Bench:
    """A task before its first implement, and its worktree."""

    def __init__(self, *, installed: bool = False) -> None:
        self.run = Run(task("a"))
        state = self.run.state
        self.path = worktree_of(state, state.tasks[A])
        self.workspace = FakeWorkspace("r")
        start = self.workspace.make(
            self.path, branch_of(state, state.tasks[A]), {"a.txt": (b"one\n", False)}
        )
        intake = {"start_commit": start, "branch": "b", "worktree": self.path}
        out = self.run.dispatch()
        report = Report(
            work_item_id=out.work_item_id,
            content_hash="h",
            ending=Ending(status=ResultStatus.SUCCESS, structured_output=intake),
            checkpoint=self.install(start) if installed else None,
        )
        self.run.add(*decide(self.run.state, report, NOW))
        self.run.end(success(Stage.SCOPE))

    def install(self, start: str) -> Checkpoint:
        """What the project's command makes, and intake's checkpoint of it."""
        files = self.workspace.worktrees[self.path].files
        files["made.txt"] = (b"made by install\n", False)
        tree = self.workspace._store(files)
        return Checkpoint(commit=self.workspace.commit(tree, start), tree=tree, ref="")

    async def errand(self) -> Errand:
        state = self.run.state
        present = state.tasks[A]
        start = StartStage(
            task_id=A,
            stage=present.stage,
            attempt=present.attempt,
            dispatch=present.dispatches.get((present.stage, present.attempt), 0) + 1,
        )
        return await make_errand(
            state,
            start,
            workspace=self.workspace,
            host=SimHost(World(rng=None, script=None)),  # type: ignore[arg-type]
            run_dir="/run",
            new_session=SessionId("new"),
            redact=lambda text: text.replace("hunter2", "[secret]"),
        )

    async def end(self, ending: Ending) -> None:
        errand = await self.errand()
        self.run.add(errand.event)
        report = Report(
            work_item_id=errand.work.id, content_hash=errand.work.content_hash, ending=ending
        )
        self.run.add(*decide(self.run.state, report, NOW))

    def salvaged(self) -> list[str]:
        return [ref for ref in self.workspace.refs if ref.startswith(SALVAGED)]


async def test_the_last_attempt_takes_over_what_the_others_left(
    autojump_clock: object,
) -> None:
    bench = Bench()
    await bench.end(failing(Cause.WORK_ERROR, "first trouble"))
    bench.workspace.worktrees[bench.path].files["a.txt"] = (b"two\n", False)
    second = await bench.errand()
    assert "take this over" not in second.work.prompt
    assert bench.salvaged() == []
    await bench.end(failing(Cause.INVALID_OUTPUT, "second trouble"))

    last = await bench.errand()
    assert (last.work.attempt, last.work.session_id, last.work.resume) == (3, "new", False)
    assert "take this over" in last.work.prompt
    assert "\n> +two\n" in last.work.prompt
    assert "second trouble" in last.work.prompt
    (ref,) = bench.salvaged()
    kept = bench.workspace.commits[bench.workspace.refs[ref]].tree
    assert bench.workspace.trees[kept]["a.txt"] == (b"two\n", False)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_session_that_is_lost_is_taken_over_at_the_same_attempt(
    autojump_clock: object, *, is_lost: bool
) -> None:
    bench = Bench()
    bench.workspace.worktrees[bench.path].files["b.txt"] = (b"half\n", False)
    await bench.end(failing(Cause.CRASH, "killed", session_lost=is_lost))
    again = await bench.errand()
    assert (again.work.attempt, again.work.dispatch) == (1, 2)
    assert again.work.resume is not is_lost
    assert ("take this over" in again.work.prompt) == is_lost
    assert ("\n> +half\n" in again.work.prompt) == is_lost
    assert len(bench.salvaged()) == is_lost


async def test_what_the_attempts_of_implement_changed_counts_together(
    autojump_clock: object,
) -> None:
    bench = Bench()
    untouched = await bench.workspace.tree(bench.path)
    await bench.end(failing(Cause.INVALID_OUTPUT, "no JSON"))
    bench.workspace.worktrees[bench.path].files["a.txt"] = (b"two\n", False)
    assert (await bench.errand()).event.tree_before == untouched
    await bench.end(success(Stage.IMPLEMENT))
    await bench.end(failing(Cause.TESTS_FAILED, "t1"))
    sent_back = await bench.errand()
    assert (sent_back.work.stage, sent_back.work.attempt) == (Stage.IMPLEMENT, 3)
    assert sent_back.event.tree_before == await bench.workspace.tree(bench.path) != untouched


async def test_a_verdict_is_kept_with_the_commit_that_it_saw(autojump_clock: object) -> None:
    bench = Bench()
    await bench.end(success(Stage.IMPLEMENT))
    await bench.end(success(Stage.TEST))
    delivered = {"branch": "b", "commit": "c0ffee"}
    await bench.end(Ending(status=ResultStatus.SUCCESS, structured_output=delivered))
    errand = await bench.errand()
    bench.run.add(errand.event)
    out = Dispatched.of(bench.run.state, bench.run.state.in_flight[A])
    for approved, cause in ((True, None), (False, Cause.REJECTED)):
        verdict = {"approved": approved, "issues": [], "non_blocking": []}
        ending = Ending(status=ResultStatus.SUCCESS, structured_output=verdict)
        seen = (await verify(out, ending, bench.workspace)).ending
        assert seen.cause is cause
        assert seen.evidence["reviewed_commit"] == "c0ffee"
        assert seen.evidence["reviewed_tree"] == await bench.workspace.tree(bench.path)


async def test_a_secret_in_what_is_told_reaches_no_prompt() -> None:
    bench = Bench()
    await bench.end(failing(Cause.WORK_ERROR, "the token hunter2 was refused"))
    work = (await bench.errand()).work
    assert "the token [secret] was refused" in work.prompt
    assert "hunter2" not in work.prompt


@pytest.mark.parametrize("installed", [True, False])
async def test_what_install_made_is_neither_handed_over_nor_reviewed_as_work(
    autojump_clock: object, *, installed: bool
) -> None:
    bench = Bench(installed=installed)
    bench.workspace.worktrees[bench.path].files["made.txt"] = (b"made by install\n", False)
    bench.workspace.worktrees[bench.path].files["a.txt"] = (b"two\n", False)
    await bench.end(failing(Cause.WORK_ERROR, "first trouble"))
    await bench.end(failing(Cause.INVALID_OUTPUT, "second trouble"))
    last = await bench.errand()
    assert "\n> +two\n" in last.work.prompt
    assert ("made by install" in last.work.prompt) != installed
    bench.run.succeed_until(Stage.DELIVER)
    deliver = await bench.errand()
    known = json.loads(deliver.work.prompt)["installed"]
    assert (known in bench.workspace.commits) == installed
    bench.run.succeed_until(Stage.REVIEW)
    review = await bench.errand()
    assert "\n> +two\n" in review.work.prompt
    assert ("made by install" in review.work.prompt) != installed


def test_a_new_round_knows_nothing_of_the_old_ones_install() -> None:
    bench = Bench(installed=True)
    run = bench.run
    assert run.state.tasks[A].installed
    run.add(*steer.abandon(run.state, [A], reason="", live=()))
    run.add(*steer.requeue(run.state, [A], reason=""))
    assert run.state.tasks[A].installed == ""
