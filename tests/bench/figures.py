"""Benchmark figures: the measured value, its target, its baseline, and the last committed value.

`python -m tests.bench.figures` writes server/BENCHMARKS.md's table from figures.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

COMMITTED = Path(__file__).with_name("figures.json")
PAGE = Path(__file__).parents[2] / "server" / "BENCHMARKS.md"
BEGIN, END = "<!-- figures: written by `python -m tests.bench.figures` -->", "<!-- end of figures -->"
WIDTH = 62
MARGIN = 1.15  # a machine that does other work moves a median by this much
Verdict = Literal["", "ok", "near", "MISSED"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A row: `value` may have a `target`, and its ratio to the first floor a `ratio_target`."""

    part: str
    name: str
    value: float
    unit: str
    target: float | None = None
    ratio_target: float | None = None
    floors: dict[str, float] = field(default_factory=dict[str, float])
    """the same of something simpler, measured in the same run, in turns with ours"""

    @property
    def ratio(self) -> float | None:
        floor = next(iter(self.floors.values()), 0.0)
        return round(self.value / floor, 2) if floor else None

    @property
    def verdict(self) -> Verdict:
        """`near` is within `MARGIN` of the target: no run on a busy machine can tell it from met."""
        against = [
            (found, target)
            for found, target in ((self.value, self.target), (self.ratio, self.ratio_target))
            if found is not None and target is not None
        ]
        if not against:
            return ""
        if all(found <= target for found, target in against):
            return "ok"
        return "near" if all(found <= target * MARGIN for found, target in against) else "MISSED"

    @property
    def aim(self) -> str:
        absolute = f"≤ {self.target:g} {self.unit}".strip() if self.target is not None else ""
        relative = f"≤ {self.ratio_target:g} ×" if self.ratio_target is not None else ""
        return ", ".join(filter(None, (absolute, relative)))


@dataclass(frozen=True)
class Run:
    """The figures of a run, with its machine and date."""

    taken: str
    figures: tuple[Figure, ...]

    @classmethod
    def load(cls, path: Path = COMMITTED) -> Run:
        if not path.exists():
            return cls("", ())
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return cls(found["taken"], tuple(Figure(**each) for each in found["figures"]))

    def write(self, path: Path = COMMITTED) -> None:
        value = {"taken": self.taken, "figures": [asdict(figure) for figure in self.figures]}
        path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def with_parts(self, other: Run) -> Run:
        """This run, with its parts replaced by those of the other run."""
        parts = {figure.part for figure in other.figures}
        kept = tuple(figure for figure in self.figures if figure.part not in parts)
        return Run(other.taken, (*kept, *other.figures))


class Table:
    """The figures of one part of the benchmark, printed as they come."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.figures: list[Figure] = []
        self._committed = {figure.name: figure for figure in Run.load().figures if figure.part == part}
        print(f"{'':<{WIDTH}} {'now':>9} {'':<4} {'target':<17} {'':<6} {'ratio':>7} {'then':>6}   floors", flush=True)

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        target: float | None = None,
        ratio_target: float | None = None,
        **floors: float | Sequence[float],
    ) -> None:
        below = {kind: rounded(middle(found)) for kind, found in floors.items()}
        figure = Figure(self.part, name, rounded(value), unit, target, ratio_target, below)
        self.figures.append(figure)
        before = self._committed.get(name)
        then = f"{value / before.value:.2f}×" if before is not None and before.value else ""
        ratio = f"{figure.ratio:.2f} ×" if figure.ratio is not None else ""
        stands_on = "  ".join(f"{kind} {found:g}" for kind, found in below.items())
        line = f"{name:<{WIDTH}} {figure.value:>9g} {unit:<4} {figure.aim:<17} {figure.verdict:<6}"
        print(f"{line} {ratio:>7} {then:>6}   {stands_on}".rstrip(), flush=True)

    def finish(self) -> int:
        """Write the figures where the command line says; the exit code: 1 when a target is missed."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--json", type=Path)
        options, _ = parser.parse_known_args()
        if options.json is not None:
            Run(where_and_when(), tuple(self.figures)).write(options.json)
        return 1 if any(figure.verdict == "MISSED" for figure in self.figures) else 0


def render(run: Run) -> str:
    """The tables of BENCHMARKS.md."""
    lines = [f"{run.taken}."]
    for part in dict.fromkeys(figure.part for figure in run.figures):
        lines += ["", f"### {part}", "", "| figure | measured | target | | ratio | floors |", "| --- " * 6 + "|"]
        for figure in (figure for figure in run.figures if figure.part == part):
            floors = ", ".join(f"{kind} {found:g}" for kind, found in figure.floors.items())
            ratio = f"{figure.ratio:.2f} ×" if figure.ratio is not None else ""
            cells = (figure.name, f"{figure.value:g} {figure.unit}".strip(), figure.aim, figure.verdict, ratio, floors)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_page(run: Run) -> None:
    """Put the tables of this run between the two marks of BENCHMARKS.md."""
    page = PAGE.read_text("utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{render(run)}\n\n{END}{after}", "utf-8")


def where_and_when() -> str:
    """The machine and the day, with the load that other work puts on it."""
    load = os.getloadavg()[0]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"Taken {day}: {os.cpu_count()} cores, Python {platform.python_version()}, load average {load:.1f}"


def middle(values: float | Sequence[float]) -> float:
    return float(values) if isinstance(values, int | float) else statistics.median(values)


def rounded(value: float) -> float:
    """The value with three significant digits."""
    return round(value, 1) if abs(value) >= 100 else float(f"{value:.3g}")


def fsync(folder: Path) -> float:
    """Milliseconds of an fsync on this disk, which every turn waits for at its end."""
    with (folder / "synced").open("ab") as file:
        file.write(b"x" * 4096)
        file.flush()
        begun = time.perf_counter()
        os.fsync(file.fileno())
        return (time.perf_counter() - begun) * 1000


def pace() -> float:
    """Milliseconds of CPU for a fixed piece of Python: other work on the machine slows it, and everything else."""
    begun = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return (time.process_time() - begun) * 1000


if __name__ == "__main__":
    write_page(Run.load())
