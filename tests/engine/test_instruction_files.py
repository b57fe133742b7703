"""AGENTS.md follows the rules of the workspace: files outside it and secrets never reach the provider."""

from __future__ import annotations

from pathlib import Path

from tests.support.tools import bench

from pilotfish.engine.prompt import MAX_RULES_CHARS, InstructionFiles


async def test_a_link_that_leaves_the_workspace_or_leads_to_a_secret_is_not_read(tmp_path: Path) -> None:
    root, keys = tmp_path / "project", tmp_path / "keys"
    (root / "sub").mkdir(parents=True)
    keys.mkdir()
    (keys / "id_rsa").write_text("the private key\n")
    (root / ".env").write_text("A=the secret\n")
    (root / "AGENTS.md").symlink_to(keys / "id_rsa")
    (root / "sub/AGENTS.md").symlink_to(root / ".env")
    async with bench(root.resolve()) as it:
        rules = InstructionFiles(it.workspace)
        assert rules.text([root.resolve() / "sub/a.py"]) == ""
        assert not rules.there([root.resolve() / "sub/a.py"])


async def test_it_is_masked_and_cut(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    (tmp_path / "AGENTS.md").write_text(f"use {key}\n" + "x" * (MAX_RULES_CHARS + 100))
    async with bench(tmp_path.resolve()) as it:
        text = InstructionFiles(it.workspace).text()
        assert key not in text
        assert "[hidden: GitHub token]" in text
        assert "[cut here: the file is longer]" in text
        assert len(text) < MAX_RULES_CHARS + 200
