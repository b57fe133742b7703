"""The committed figures, the page that shows them, and the verdict on a figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bench.figures import BEGIN, END, PAGE, Figure, Run, render

README = PAGE.parents[1] / "README.md"


def test_the_page_shows_the_committed_figures() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == render(Run.load()).strip(), "run `python -m tests.bench.figures`"


def test_the_committed_figures_have_names_of_their_own() -> None:
    figures = Run.load().figures
    assert "server" in {figure.part for figure in figures} <= {"server", "core", "store", "search", "policy"}
    names = [(figure.part, figure.name) for figure in figures]
    assert len(set(names)) == len(names)


def test_the_readme_points_to_the_page() -> None:
    assert "(server/BENCHMARKS.md)" in README.read_text("utf-8")


@pytest.mark.parametrize(
    ("value", "target", "ratio_target", "verdict"),
    [
        (1.0, None, None, ""),
        (1.0, 1.0, None, "ok"),
        (1.1, 1.0, None, "near"),
        (1.2, 1.0, None, "MISSED"),
        (1.0, None, 0.5, "ok"),
        (1.1, None, 0.5, "near"),
        (2.0, None, 0.5, "MISSED"),
        (2.0, 9.0, 0.5, "MISSED"),
        (1.0, 0.9, 0.5, "near"),
    ],
)
def test_a_figure_is_judged_by_its_target_and_by_its_ratio(
    value: float, target: float | None, ratio_target: float | None, verdict: str
) -> None:
    assert Figure("part", "name", value, "s", target, ratio_target, {"stock": 2.0}).verdict == verdict


def test_a_target_of_nothing_is_missed_by_anything() -> None:
    assert [Figure("part", "gaps", value, "", 0).verdict for value in (0.0, 1.0)] == ["ok", "MISSED"]


def test_a_part_that_is_measured_again_replaces_its_rows_only(tmp_path: Path) -> None:
    before = Run("then", (Figure("a", "x", 1, "s"), Figure("a", "gone", 1, "s"), Figure("b", "y", 2, "s")))
    after = before.with_parts(Run("now", (Figure("a", "x", 3, "s"),)))
    assert after == Run("now", (Figure("b", "y", 2, "s"), Figure("a", "x", 3, "s")))
    after.write(tmp_path / "figures.json")
    assert Run.load(tmp_path / "figures.json") == after
