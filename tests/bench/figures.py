"""Figures: what was measured, what it should be, what it stands on, and what it was when it was last committed."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).with_name("figures.json")
WIDTH = 56


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    target: float | None = None
    floors: dict[str, float] = field(default_factory=dict[str, float])
    """the same of something simpler, measured in the same run"""

    @property
    def is_met(self) -> bool:
        return self.target is None or self.value <= self.target


class Table:
    """Figures, printed as they come."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self._before: dict[str, Any] = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
        print(f"{'':<{WIDTH}} {'now':>8} {'':<4} {'target':<8} {'':<7} {'then':>6}   floors", flush=True)

    def add(
        self, name: str, value: float, unit: str, target: float | None = None, **floors: float | Sequence[float]
    ) -> None:
        below = {kind: round(middle(found), 2) for kind, found in floors.items()}
        figure = Figure(name, round(value, 2), unit, target, below)
        self.figures.append(figure)
        aim = "" if target is None else f"≤ {target:g}"
        mark = "" if target is None else ("ok" if figure.is_met else "MISSED")
        stands_on = "  ".join(f"{kind} {found:g}" for kind, found in below.items())
        line = f"{name:<{WIDTH}} {value:>8.2f} {unit:<4} {aim:<8} {mark:<7} {self._then(name, value):>6}   {stands_on}"
        print(line.rstrip(), flush=True)

    def write(self, path: Path) -> None:
        found = [
            {"name": each.name, "value": each.value, "unit": each.unit, "target": each.target, "floors": each.floors}
            for each in self.figures
        ]
        path.write_text(json.dumps({"figures": found}, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _then(self, name: str, value: float) -> str:
        """Against the committed figure: 0.5× is half of it."""
        before = next((each["value"] for each in self._before.get("figures", ()) if each["name"] == name), None)
        return f"{value / before:.2f}×" if before else ""


def middle(values: float | Sequence[float]) -> float:
    return float(values) if isinstance(values, int | float) else statistics.median(values)


def fsync(folder: Path) -> float:
    """Milliseconds that this disk takes for a promise, which the end of a turn waits for."""
    with (folder / "synced").open("ab") as file:
        file.write(b"x" * 4096)
        file.flush()
        begun = time.perf_counter()
        os.fsync(file.fileno())
        return (time.perf_counter() - begun) * 1000


def pace() -> float:
    """Milliseconds of CPU that a fixed piece of Python takes now: other work on the machine slows it, and all else."""
    begun = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return (time.process_time() - begun) * 1000
