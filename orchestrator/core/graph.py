"""The DAG of tasks and its indexes: heights, the ready heap, who depends on whom.

Invariant: nothing here looks at every task; what an event costs depends on the
neighbours of its task alone.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from orchestrator.core.model import TaskId, TaskStatus
from orchestrator.core.pace import span
from orchestrator.core.state import ReadyItem, RunState, TaskState

HeapItem = TypeVar("HeapItem", bound=tuple[Any, ...])

VOID_MAX = 64
"""Entries that may be void however few there are."""

DOOMED = frozenset({TaskStatus.FAILED, TaskStatus.CASCADE_BLOCKED, TaskStatus.REJECTED})


def best_first(heap: Sequence[HeapItem]) -> Iterator[HeapItem]:
    """Yield a heap's items in order without changing it: O(log n) each."""
    if not heap:
        return
    frontier = [(heap[0], 0)]
    while frontier:
        item, at = heapq.heappop(frontier)
        yield item
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heapq.heappush(frontier, (heap[child], child))


def raise_heights(state: RunState, task: TaskState) -> None:
    """Let a new task count in the priority of all it depends on."""
    task.height = span(state, task) + _highest_dependent(state, task)
    queue = deque([task])
    while queue:
        lower = queue.popleft()
        for need in lower.depends_on:
            upper = state.tasks.get(need)
            if upper is None:
                continue
            height = span(state, upper) + lower.height
            if height > upper.height:
                _set_height(state, upper, height)
                queue.append(upper)


def measure_heights(state: RunState) -> None:
    """Of all tasks anew, where what stages take has been learned: once for each of them."""
    above = dict.fromkeys(state.tasks, 0)
    for task in state.tasks.values():
        for need in task.depends_on:
            if need in above:
                above[need] += 1
    queue = deque(task_id for task_id, n in above.items() if not n)
    while queue:
        task = state.tasks[queue.popleft()]
        _set_height(state, task, span(state, task) + _highest_dependent(state, task))
        for need in task.depends_on:
            if need in above:
                above[need] -= 1
                if not above[need]:
                    queue.append(need)


def _highest_dependent(state: RunState, task: TaskState) -> float:
    dependents = state.dependents.get(task.id, ())
    return max((state.tasks[d].height for d in dependents if d in state.tasks), default=0.0)


def _set_height(state: RunState, task: TaskState, height: float) -> None:
    task.height = height
    if task.status is TaskStatus.READY:
        push_ready(state, task)


def push_ready(state: RunState, task: TaskState) -> None:
    if task.paused is not None:
        state.set_aside.add(task.id)
    else:
        heapq.heappush(state.ready, (-task.priority, -task.height, task.added_seq, task.id))


def push_cooling(state: RunState, task: TaskState) -> None:
    if task.paused is not None:
        state.set_aside.add(task.id)
    elif task.not_before is not None:
        heapq.heappush(state.cooling, (task.not_before, task.id))


def place_anew(state: RunState, task: TaskState) -> None:
    """Where a person has changed its priority, or has paused it or let it go on."""
    state.set_aside.discard(task.id)
    if task.status is TaskStatus.READY:
        push_ready(state, task)
    elif task.status is TaskStatus.COOLING:
        push_cooling(state, task)
    drop_void(state)
    _drop_all_void_if_most(state)


def is_live_ready(state: RunState, item: ReadyItem) -> bool:
    priority, height, _, task_id = item
    task = state.tasks[task_id]
    return (
        task.status is TaskStatus.READY
        and task.paused is None
        and (-priority, -height) == (task.priority, task.height)
    )


def is_live_cooling(state: RunState, item: tuple[float, TaskId]) -> bool:
    task = state.tasks[item[1]]
    is_cooling = task.status is TaskStatus.COOLING and item[0] == task.not_before
    return is_cooling and task.paused is None


def drop_void(state: RunState) -> None:
    """Take entries that no longer mean anything off the tops of the heaps."""
    while state.ready and not is_live_ready(state, state.ready[0]):
        heapq.heappop(state.ready)
    while state.cooling and not is_live_cooling(state, state.cooling[0]):
        heapq.heappop(state.cooling)


def _drop_all_void_if_most(state: RunState) -> None:
    """So that no plan looks past more void entries than there are others; as rare as it is dear."""
    statuses = (TaskStatus.READY, TaskStatus.COOLING)
    alive = sum(state.counts.get(status, 0) for status in statuses) - len(state.set_aside)
    if len(state.ready) + len(state.cooling) > 2 * alive + VOID_MAX:
        # What is sorted is a heap.
        state.ready = sorted({item for item in state.ready if is_live_ready(state, item)})
        state.cooling = sorted({item for item in state.cooling if is_live_cooling(state, item)})


def doomed_dependents(state: RunState, task_id: TaskId) -> list[TaskId]:
    """Every task, in breadth-first order, that can never start once ``task_id`` has failed."""
    doomed: list[TaskId] = []
    seen = {task_id}
    queue = deque([task_id])
    while queue:
        for dependent_id in state.dependents.get(queue.popleft(), ()):
            dependent = state.tasks.get(dependent_id)
            if dependent is None or dependent_id in seen:
                continue
            seen.add(dependent_id)
            if dependent.status.is_terminal or dependent.lease is not None:
                continue
            doomed.append(dependent_id)
            queue.append(dependent_id)
    return doomed


def find_cycle(depends_on: Mapping[TaskId, Sequence[TaskId]]) -> list[TaskId]:
    """A cycle's path, its first task repeated at the end; empty where there is none."""
    finished: set[TaskId] = set()
    for root in depends_on:
        path: list[TaskId] = []
        on_path: set[TaskId] = set()
        stack: list[tuple[TaskId, Iterator[TaskId]]] = []
        following: TaskId | None = root
        while following is not None or stack:
            if following is not None:
                if following in on_path:
                    return [*path[path.index(following) :], following]
                if following not in finished:
                    path.append(following)
                    on_path.add(following)
                    stack.append((following, iter(depends_on.get(following, ()))))
                following = None
            if not stack:
                break
            task_id, needs = stack[-1]
            following = next(needs, None)
            if following is None:
                stack.pop()
                path.pop()
                on_path.discard(task_id)
                finished.add(task_id)
    return []
