"""The checks of the evals can fail, and the scripted model's slips are forgiven."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.eval.__main__ import SCRIPTED, render, run
from tests.eval.tasks import TASKS, Task


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{task.language}")
def test_an_untouched_workspace_is_not_a_solution(task: Task, tmp_path: Path) -> None:
    for name, text in task.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert not task.solved(tmp_path, "Done.")


async def test_a_task_is_run_and_scored() -> None:
    score = await run(TASKS[0], SCRIPTED, "ask", 120)
    assert (score.solved, score.requests, score.refused, score.ended) == (True, 4, 0, "end_turn")
    assert score.questions > 0


async def test_a_turn_that_does_not_end_is_not_solved() -> None:
    score = await run(TASKS[0], SCRIPTED, "edit", 0.01)
    assert (score.solved, score.ended) == (False, "time")


def test_the_page_has_a_row_for_each_score() -> None:
    score = {"task": "t", "solved": True, "requests": 1, "tokens": 2000, "questions": 0, "refused": 0, "seconds": 1.5}
    kept = {"when": "2026-01-02", "version": "1", "machine": "2 CPUs", "note": "", "scores": [{**score, "ended": "x"}]}
    page = render({"m, mode edit": kept})
    assert "| t | yes | 1 | 2,000 | 0 | 0 | 1.5 | x |" in page
    assert "**1 of 1 solved.**" in page
