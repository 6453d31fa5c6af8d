"""Whatever tasks are called, their files and branches can be made, and are told apart."""

import re

from hypothesis import given, strategies as st

from orchestrator.core.slug import slug_of


@given(st.lists(st.text(max_size=8), max_size=6))
def test_slugs_are_safe_and_each_is_its_own(ids: list[str]) -> None:
    taken: list[str] = []
    for task_id in ids:
        taken.append(slug_of(task_id, taken))
    assert len({slug.lower() for slug in taken}) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", slug) for slug in taken)
