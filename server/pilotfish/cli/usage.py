"""`pilotfish usage`: tokens, requests and cost by user, model and day, as a table, CSV or JSON."""

from __future__ import annotations

import csv
import getpass
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pilotfish.config.settings import load_user
from pilotfish.errors import BadRequest
from pilotfish.store.ledger import Ledger
from pilotfish.store.usage import Column, UsageKey, UsageSum, usage_by
from pilotfish.text.display_safe import display_safe

Form = Literal["table", "csv", "json"]

_ORDER: tuple[Column, ...] = ("day", "user", "model")


_SHORT: Final = {
    "toolCalls": "calls",
    "inputTokens": "input",
    "cachedTokens": "cached",
    "outputTokens": "output",
    "unpricedRequests": "unpriced",
}
"""column names that fit into a terminal"""


async def print_usage(by: str, days: int, form: Form) -> int:
    names = {name.strip() for name in by.split(",")}
    shown: list[Column] = [column for column in _ORDER if column in names]
    if len(shown) != len(names):
        raise BadRequest(f"--by takes user, model and day, not {by}.", field="by")
    today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    ledger = Ledger.open(load_user().settings.storage)
    try:
        sums = await usage_by(ledger, frozenset(shown), (today - timedelta(days=days - 1)).timestamp())
        unsaved = ledger.unsaved
    finally:
        await ledger.aclose()
    if unsaved:
        sys.stderr.write(f"pilotfish: {unsaved}\n")
        return 1
    rows = [_row(shown, key, found) for key, found in sums.items()]
    match form:
        case "json":
            sys.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode() + "\n")
        case "csv":
            fields = [*shown, *_row([], UsageKey(), UsageSum())]
            written = csv.DictWriter(sys.stdout, fields, lineterminator="\n")
            written.writeheader()
            written.writerows(rows)
        case "table":
            _print_table(rows, days)
    return 0


def _row(columns: Sequence[Column], key: UsageKey, found: UsageSum) -> dict[str, Any]:
    usage = found.usage
    return {
        # A database of one user does not store the user.
        **{column: getattr(key, column) or (getpass.getuser() if column == "user" else "") for column in columns},
        "sessions": len(found.sessions),
        "turns": found.turns,
        "requests": usage.requests,
        "toolCalls": usage.tool_calls,
        "inputTokens": usage.input_tokens,
        "cachedTokens": usage.cached_tokens,
        "outputTokens": usage.output_tokens,
        "cost": None if usage.cost is None else round(usage.cost, 6),
        "unpricedRequests": usage.unpriced_requests,
    }


def _print_table(rows: Sequence[Mapping[str, Any]], days: int) -> None:
    console = Console(highlight=False, width=200)  # a narrow terminal wraps the lines; no number is cut off
    if not rows:
        console.print(f"Nothing was used in the last {days} days.")
        return
    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        justify = "left" if isinstance(value, str) else "right"
        table.add_column(_SHORT.get(name, name), justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_cell(name, value)) for name, value in row.items()))
    console.print(table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "cost":
        return f"${value:.4f}"
    return display_safe(value) if isinstance(value, str) else f"{value:,}"
