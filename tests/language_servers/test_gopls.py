"""gopls of the machine, and a rustup that has no rust-analyzer. Skipped where there is no gopls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.language_servers import inside, plain_client

GO = {
    "go.mod": "module shop\n\ngo 1.19\n",
    "shop.go": "package main\n\nfunc price(count int) int {\n\treturn count * 2\n}\n",
    "till.go": "package main\n\nfunc main() {\n\tprintln(price(3))\n}\n",
}
GOPLS = shutil.which("gopls")


def system(folder: Path) -> None:
    """Nothing but the programs of the system."""


@pytest.mark.skipif(GOPLS is None, reason="gopls is not installed: apt-get install gopls golang-go")
async def test_gopls_answers_for_a_module(tmp_path: Path) -> None:
    async with plain_client(tmp_path, GO, system) as asked:
        uses = await asked.run("find_symbol", path="shop.go", line=3, name="price", find="references")
        assert inside(uses) == ["shop.go:3: func price(count int) int {", "till.go:4: println(price(3))"]
        found = await asked.run("find_symbol", path="till.go", line=4, name="price")
        assert inside(found) == ["shop.go:3: func price(count int) int {"]
        assert inside(await asked.run("symbols", path="shop.go")) == ["function price :3"]
        assert inside(await asked.run("diagnostics", path="shop.go")) == ["No problems found."]
        edited = await asked.run("update_file", path="till.go", edits=[{"old": "price(3)", "new": 'price("3")'}])
        assert "the language server now reports: line 4" in edited
        await asked.run("update_file", path="till.go", edits=[{"old": 'price("3")', "new": "price(3)"}])
        await asked.run("rename_symbol", path="shop.go", line=3, name="price", new_name="cost")
        changed = {name: (tmp_path / "work" / name).read_text() for name in GO}
        assert changed == {name: text.replace("price", "cost") for name, text in GO.items()}
