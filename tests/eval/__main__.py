"""Runs the tasks and writes EVALS.md.

    python -m tests.eval                                   the scripted model
    python -m tests.eval local:/path/to/file.gguf          a real model on this machine
    python -m tests.eval anthropic:claude-…                with the key in the environment
    python -m tests.eval --mode ask --only explain MODEL

Each task gets a workspace and a server process of its own. Questions are answered with yes, and counted.
The results of every model are kept in `results.json`, so that a run of one model keeps the tables of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.eval.tasks import TASKS, Task
from tests.support.client import Client, connect
from tests.support.provider import serve

from pilotfish import __version__
from pilotfish.engine.model.catalog.providers import KNOWN, LOCAL
from pilotfish.protocol import wire

SCRIPTED = "scripted"
RESULTS = Path(__file__).with_name("results.json")
TARGET = Path(__file__).parents[2] / "EVALS.md"
EDITS = ("update_file", "write_file", "apply_patch", "move_file", "delete_file")
HEAD = """# Evals

Small tasks, run through the real server over stdio in throwaway workspaces by `make eval`, which writes this page.
*Solved* is checked on the files (or on the answer, for an explanation), not on what the model says.
*Questions* are approvals, all answered with yes; *refused* are edits that did not apply.

The scripted model makes slips that real models make and does not react to anything: it measures how forgiving the
server is, not how clever a model is. Real models vary from run to run, and a handful of tasks is a small sample.
"""


@dataclass(frozen=True)
class Score:
    task: str
    solved: bool
    requests: int
    tokens: int
    questions: int
    refused: int
    seconds: float
    ended: str
    """why the turn ended, or `time` if it did not end in time"""


async def run(task: Task, model: str, mode: str, limit: float) -> Score:
    """One task with one model."""
    with tempfile.TemporaryDirectory(prefix="pilotfish-eval-") as place:
        folder = Path(place) / "work"
        for name, text in task.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        async with serve(*task.script) as provider:
            scripted = {"OPENAI_API_KEY": "sk-scripted", "PILOTFISH_BASE_URL": provider.openai_url}
            environ: dict[str, Any] = scripted if model == SCRIPTED else _keys()
            settings = {"model": "openai-chat:scripted" if model == SCRIPTED else model, "mode": mode}
            async with connect(folder, settings=settings, **environ) as client:
                return await _judged(client, task, folder, limit)


def _keys() -> dict[str, Any]:
    keys = [name for known in KNOWN for name in known.variables]
    addresses = [f"{server.prefix.upper()}_BASE_URL" for server in LOCAL]
    return {name: os.environ[name] for name in (*keys, *addresses, "PILOTFISH_MODELS") if name in os.environ}


async def _judged(client: Client, task: Task, folder: Path, limit: float) -> Score:
    session, began = await client.new_session(), time.monotonic()
    try:
        result = await client.prompt(session, task.prompt, timeout=limit)
        ended, usage = result.stop_reason, result.usage
    except TimeoutError:
        ended, usage = "time", wire.Usage()
    seconds = time.monotonic() - began
    updates = [each.update for each in client.updates]
    calls = [update.call for update in updates if isinstance(update, wire.CallUpdate)]
    answer = "".join(update.text for update in updates if isinstance(update, wire.MessageChunk))
    return Score(
        task=f"{task.name} ({task.language})",
        solved=ended == "end_turn" and await asyncio.to_thread(task.solved, folder, answer),
        requests=usage.requests,
        tokens=usage.input_tokens + usage.output_tokens,
        questions=len(client.of("pilotfish/approval/request")),
        refused=sum(call.status == "failed" and call.name in EDITS for call in calls),
        seconds=round(seconds, 1),
        ended=ended,
    )


def render(results: dict[str, Any]) -> str:
    """The page."""
    parts = [HEAD]
    for name, kept in results.items():
        scores = [Score(**score) for score in kept["scores"]]
        solved = sum(score.solved for score in scores)
        parts.append(
            f"\n## {name}\n\n{kept['when']}, Pilotfish {kept['version']}, {kept['machine']}."
            f" **{solved} of {len(scores)} solved.**{kept['note']}\n\n"
            "| task | solved | requests | tokens | questions | refused | seconds | ended |\n"
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n"
        )
        parts += [
            f"| {each.task} | {'yes' if each.solved else 'no'} | {each.requests} | {each.tokens:,} | {each.questions}"
            f" | {each.refused} | {each.seconds} | {each.ended} |\n"
            for each in scores
        ]
    slips = "".join(f"- {task.name} ({task.language}): {task.slips}\n" for task in TASKS)
    return "".join([*parts, "\n## The slips of the scripted model\n\n", slips])


async def main(models: Sequence[str], mode: str, only: str, limit: float, note: str) -> None:
    for model in models:
        scores: list[Score] = []
        for task in (task for task in TASKS if any(part in task.name for part in only.split(","))):
            scores.append(await run(task, model, mode, limit))
            print(f"{model}: {scores[-1]}", flush=True)
        shown = Path(model.partition(":")[2]).stem if model.startswith("local:") else model
        results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        results[f"{shown}, mode {mode}"] = {
            "when": datetime.now(UTC).date().isoformat(),
            "version": __version__,
            "machine": f"{os.cpu_count()} CPUs, {platform.system()}",
            "note": f" {note}" if note else "",
            "scores": [asdict(score) for score in scores],
        }
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        TARGET.write_text(render(results), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[SCRIPTED])
    parser.add_argument("--mode", default="edit", choices=("ask", "edit", "auto"))
    parser.add_argument("--only", default="", help="tasks whose name contains one of these, with commas between")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one task")
    parser.add_argument("--note", default="", help="a sentence for the page")
    given = parser.parse_args()
    asyncio.run(main(given.models, given.mode, given.only, given.limit, given.note))
