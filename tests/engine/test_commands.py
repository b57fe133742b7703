"""Slash commands: what is one, what the user's files say, and whose they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilotfish.engine import commands
from pilotfish.engine.commands import CustomCommand, TypedCommand, listed, read_commands, typed


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration directory, with a folder for commands."""
    monkeypatch.setenv("PILOTFISH_CONFIG", str(tmp_path / "config" / "config.toml"))
    (tmp_path / "config" / "commands").mkdir(parents=True)
    return tmp_path / "config" / "commands"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work" / ".pilotfish" / "commands").mkdir(parents=True)
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", TypedCommand("help", "")),
        ("  /model  openai:gpt-x  ", TypedCommand("model", "openai:gpt-x")),
        ("/plan first this\nthen that", TypedCommand("plan", "first this\nthen that")),
        ("/git:commit now", TypedCommand("git:commit", "now")),
        ("/usr/bin/env is missing", None),
        ("/", None),
        ("// a comment", None),
        ("what is /help", None),
        ("/1st", None),
    ],
)
def test_what_is_a_command(text: str, expected: TypedCommand | None):
    assert typed(text) == expected


def test_a_file_is_a_command_with_its_front_matter(config: Path):
    (config / "review.md").write_text("---\ndescription: 'Look closely'\nargument-hint: [file]\n---\n\nLook at $1.\n")
    (config / "git").mkdir()
    (config / "git" / "commit.md").write_text("# Commit\n\nCommit what is staged.\n")
    assert read_commands([]) == {
        "git:commit": CustomCommand("git:commit", "Commit", None, "# Commit\n\nCommit what is staged.", "user"),
        "review": CustomCommand("review", "Look closely", "[file]", "Look at $1.", "user"),
    }


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Do $ARGUMENTS now", "a b", "Do a b now"),
        ("$1 and $2 and $3", "a b", "a and b and "),
        ("$10 and $1", "a", "$10 and a"),
        ("No place", "for this", "No place\n\nfor this"),
        ("No place", "", "No place"),
        (r"$1", r"\1 \g<0>", r"\1"),
    ],
)
def test_arguments_stand_where_the_text_wants_them(body: str, arguments: str, expected: str):
    assert CustomCommand("x", "", None, body, "user").expand(arguments) == expected


def test_built_in_commands_cannot_be_replaced_nor_the_users_by_a_folders(config: Path, folder: Path):
    (config / "help.md").write_text("Not this help")
    (config / "mine.md").write_text("Mine")
    for name in ("help", "mine", "theirs"):
        (folder / ".pilotfish" / "commands" / f"{name}.md").write_text("Theirs")
    found = read_commands([folder])
    assert {name: command.source for name, command in found.items()} == {
        "mine": "user",
        "theirs": "workspace",
        "review": "built-in",
    }
    assert [command.name for command in listed(found)][-2:] == ["mine", "theirs"]


def test_a_folder_brings_no_file_from_elsewhere_and_none_that_is_huge_or_no_text(config: Path, folder: Path):
    place = folder / ".pilotfish" / "commands"
    secret = folder.parent / "secret.md"
    secret.write_text("a key")
    (place / "link.md").symlink_to(secret)
    (place / "huge.md").write_text("x" * (commands.MAX_BYTES + 1))
    (place / "binary.md").write_bytes(b"\xff\xfe")
    (place / "bad name.md").write_text("x")
    (place / "good.md").write_text("x")
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "private.md").write_text("a key")
    (folder / ".claude").mkdir()
    (folder / ".claude" / "commands").symlink_to(folder.parent / "elsewhere")
    assert list(read_commands([folder])) == ["good", "review"]


def test_a_folder_brings_no_secret_of_the_workspace_and_no_pipe(config: Path, folder: Path):
    place = folder / ".pilotfish" / "commands"
    (folder / ".env").write_text("KEY=1\n")
    (place / "link.md").symlink_to(folder / ".env")
    os.link(folder / ".env", place / "hard.md")
    os.mkfifo(place / "pipe.md")
    (place / "masked.md").write_text("Use sk-ant-api03-" + "Ab1" * 31 + "AA for it")
    found = read_commands([folder])
    assert list(found) == ["masked", "review"]
    assert isinstance(masked := found["masked"], CustomCommand)
    assert "Ab1Ab1" not in masked.body


def test_help_names_every_command(config: Path):
    (config / "mine.md").write_text("---\ndescription: My own\n---\nx")
    text = commands.help_text(read_commands([]))
    assert "- `/mine`: My own" in text
    assert all(f"/{name}" in text for name in commands.BUILT_IN)
