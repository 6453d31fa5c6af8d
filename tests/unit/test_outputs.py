"""What an answer has to hold to count."""

import pytest

from adapters.execution.work_file import work_of_lease
from orchestrator.core.model import Cause, Ending, ResultStatus, Stage
from orchestrator.core.outputs import OUTPUT_SCHEMAS, judge
from tests.simulation.driving import task
from tests.unit.test_decide import A, Run


@pytest.mark.parametrize("stage", list(OUTPUT_SCHEMAS))
def test_a_success_without_its_output_is_no_verdict(stage: Stage) -> None:
    said = Ending(status=ResultStatus.SUCCESS)
    judged = judge(stage, said, tree_before="t", tree="t", conflicts=())
    assert judged.cause is Cause.INVALID_OUTPUT


def test_a_lost_work_item_still_says_what_its_stage_must_answer_with() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.SCOPE)
    run.dispatch()
    work = work_of_lease(run.state.in_flight[A])
    assert work.output_schema == OUTPUT_SCHEMAS[Stage.SCOPE]
