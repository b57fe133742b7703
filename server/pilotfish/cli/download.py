"""`pilotfish download`: the weights of a model that runs on this machine, with progress."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from pilotfish.engine.model.local import weights


async def download_model(model: str) -> int:
    """Download it, or continue an earlier download. Ctrl+C stops it, and nothing that arrived is lost."""
    wanted = weights.known_weights(model)
    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(wanted.name, total=wanted.size)
        path = await weights.download(wanted, lambda done, _: bar.update(task, completed=done))
    console.print(f"{path} ({wanted.licence}). Use it with --model {weights.PREFIX}:{wanted.name}", soft_wrap=True)
    if not weights.is_installed():
        console.print(f"It needs one more package: {weights.how_to_install()}", soft_wrap=True)
    return 0
