"""Rules and trust are stored in the user's file; a repository can only ask or deny."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.provider import say

from pilotfish.config.rule_store import CAUTION, RuleBook
from pilotfish.config.settings import RuleSetting, Settings
from pilotfish.errors import StorageError
from pilotfish.policy.rules import Decision, Rule, Scope

NOTHING = Settings()


def rule(pattern: str, decision: Decision = "allow", scope: Scope = "workspace", tool: str = "bash") -> Rule:
    return Rule(decision=decision, tool=tool, pattern=pattern, scope=scope)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def book(tmp_path: Path) -> RuleBook:
    return RuleBook(tmp_path / "config" / "config.toml")


def test_a_rule_is_kept_for_its_workspace_only(book: RuleBook, folder: Path, tmp_path: Path) -> None:
    book.add(rule("npm test *"), folder)
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("npm test *"),)
    assert book.rules_for(tmp_path, NOTHING, trusted=True) == ()
    assert RuleBook(book.path).rules_for(folder, NOTHING, trusted=False) == (rule("npm test *"),)
    assert list(folder.iterdir()) == []


def test_a_user_rule_applies_everywhere(book: RuleBook, folder: Path) -> None:
    book.add(rule("git push *", "deny", "user"), None)
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("git push *", "deny", "user"),)
    assert book.rules_for(None, NOTHING, trusted=True) == (rule("git push *", "deny", "user"),)


def test_rules_of_the_settings_apply_too_without_duplicates(book: RuleBook, folder: Path) -> None:
    book.add(rule("x", "deny", "user"), None)
    settings = Settings(
        rules=(
            RuleSetting(decision="deny", tool="bash", pattern="x"),
            RuleSetting(decision="ask", tool="*", pattern="y"),
        )
    )
    found = book.rules_for(folder, settings, trusted=True)
    assert found == (rule("x", "deny", "user"), rule("y", "ask", "user", tool="*"))


def test_a_folder_is_recognised_by_every_path_to_it(book: RuleBook, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    book.add(rule("npm test"), tmp_path / "link")
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("npm test"),)


def test_a_rule_is_stored_once_and_can_be_removed(book: RuleBook, folder: Path) -> None:
    book.add(rule("a"), folder)
    book.add(rule("b"), folder)
    book.add(rule("a"), folder)
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("a"), rule("b"))
    assert book.remove(rule("a"), folder) is True
    assert book.remove(rule("a"), folder) is False
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("b"),)


def test_the_rest_of_the_file_is_not_changed(book: RuleBook, folder: Path) -> None:
    book.path.parent.mkdir()
    book.path.write_text(
        '# mine\nmode = "edit"   # because\n\n[[rules]]\ndecision = "deny"\ntool = "bash"\npattern = "x"\n'
    )
    book.add(rule("a"), folder)
    book.add(rule("y", "ask", "user"), None)
    book.trust(folder, trusted=True)
    book.remove(rule("a"), folder)
    book.remove(rule("y", "ask", "user"), None)
    text = book.path.read_text()
    assert text.startswith(
        '# mine\nmode = "edit"   # because\n\n[[rules]]\ndecision = "deny"\ntool = "bash"\npattern = "x"\n'
    )
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("x", "deny", "user"),)


def test_a_user_rule_is_written_before_the_tables(book: RuleBook, folder: Path) -> None:
    book.trust(folder, trusted=True)
    book.add(rule("x", "deny", "user"), None)
    again = RuleBook(book.path)
    assert again.rules_for(None, NOTHING, trusted=True) == (rule("x", "deny", "user"),)
    assert again.trusts(folder)


@pytest.mark.parametrize("pattern", ["npm 'a b' *", 'echo "x" \\', "a\nb", "./x[y]", "π → *", "'" * 5])
def test_any_pattern_survives_writing_and_reading(book: RuleBook, folder: Path, pattern: str) -> None:
    book.add(rule(pattern), folder)
    assert RuleBook(book.path).rules_for(folder, NOTHING, trusted=True) == (rule(pattern),)


def test_the_file_is_private_and_written_atomically(book: RuleBook, folder: Path) -> None:
    book.path.parent.mkdir()
    book.path.write_text("")
    book.path.chmod(0o644)
    book.add(rule("a"), folder)
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600
    assert {path.name for path in book.path.parent.iterdir()} == {"config.toml", "config.toml.lock"}


def test_a_link_to_dotfiles_stays_a_link(book: RuleBook, folder: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text('mode = "edit"\n')
    book.path.parent.mkdir()
    book.path.symlink_to(real)
    book.add(rule("a"), folder)
    assert book.path.is_symlink()
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("a"),)
    assert 'mode = "edit"' in real.read_text()


def test_a_change_by_another_process_is_seen(book: RuleBook, folder: Path) -> None:
    book.add(rule("a"), folder)
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("a"),)
    RuleBook(book.path).add(rule("b"), folder)
    assert book.rules_for(folder, NOTHING, trusted=True) == (rule("a"), rule("b"))


def test_many_writers_lose_nothing(book: RuleBook, folder: Path) -> None:
    def write(number: int) -> None:
        for step in range(5):
            RuleBook(book.path).add(rule(f"w{number} {step}"), folder)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(book.rules_for(folder, NOTHING, trusted=True)) == 20


def test_trust_is_asked_once_and_nearest_wins(book: RuleBook, folder: Path) -> None:
    inner = folder / "inner"
    assert book.trust_of(folder) is None
    book.trust(folder, trusted=True)
    assert (book.trusts(folder), book.trusts(inner), book.trust_of(folder.parent)) == (True, True, None)
    book.trust(inner, trusted=False)
    assert (book.trust_of(inner), book.trusts(folder)) == (False, True)


def test_a_repository_can_only_tighten_and_only_when_trusted(book: RuleBook, folder: Path) -> None:
    (folder / ".pilotfish").mkdir()
    (folder / ".pilotfish/rules.toml").write_text(
        'trusted = true\nmode = "auto"\nrules = [\n'
        '  { decision = "allow", tool = "bash", pattern = "curl *" },\n'
        '  { decision = "deny", tool = "bash", pattern = "git push *" },\n'
        '  { decision = "ask", tool = "*", pattern = "*.lock" },\n]\n'
    )
    expected = (rule("git push *", "deny", "repository"), rule("*.lock", "ask", "repository", tool="*"))
    assert book.rules_for(folder, NOTHING, trusted=True) == expected
    assert book.rules_for(folder, NOTHING, trusted=False) == ()
    assert book.trust_of(folder) is None
    assert book.problems(folder, trusted=True) == (
        ".pilotfish/rules.toml: a repository's rules can only ask or deny; its allow rules are ignored",
    )


@pytest.mark.parametrize("content", [b"rules = 1", b"\xff\xfe", b"rules = [", b"[" * 50_000, b"x" * 300_000])
def test_a_broken_repository_file_changes_nothing(book: RuleBook, folder: Path, content: bytes) -> None:
    (folder / ".pilotfish").mkdir()
    (folder / ".pilotfish/rules.toml").write_bytes(content)
    assert book.rules_for(folder, NOTHING, trusted=True) == ()
    assert len(book.problems(folder, trusted=True)) == 1


def test_a_repository_file_that_is_not_a_regular_file_does_not_block(book: RuleBook, folder: Path) -> None:
    (folder / ".pilotfish").mkdir()
    os.mkfifo(folder / ".pilotfish/rules.toml")
    assert book.rules_for(folder, NOTHING, trusted=True) == ()
    assert book.problems(folder, trusted=True) == ("rules.toml is not a file",)


def test_while_the_user_file_is_invalid_calls_are_asked_about_and_it_is_not_overwritten(
    book: RuleBook, folder: Path
) -> None:
    book.add(rule("npm test"), folder)
    book.trust(folder, trusted=True)
    broken = book.path.read_text() + "\n[[[\n"
    book.path.write_text(broken)
    assert book.rules_for(folder, NOTHING, trusted=True) == CAUTION
    assert book.trusts(folder) is False
    with pytest.raises(StorageError):
        book.add(rule("x"), folder)
    assert book.path.read_text() == broken


def test_the_folder_of_a_rule_is_kept(tmp_path: Path) -> None:
    book, folder = RuleBook(tmp_path / "config.toml"), tmp_path / "project"
    rule = Rule(decision="allow", tool="bash", pattern="npm run build *", scope="workspace", folder="web")
    book.add(rule, folder)
    book.add(replace(rule, folder=""), folder)
    assert book.rules_for(folder, Settings(), trusted=True) == (rule, replace(rule, folder=""))
    assert book.remove(rule, folder)
    assert book.rules_for(folder, Settings(), trusted=True) == (replace(rule, folder=""),)


def test_an_invalid_rule_is_ignored_and_reported(book: RuleBook, folder: Path) -> None:
    book.path.parent.mkdir()
    book.path.write_text(
        'rules = [{ decision = "allow" }, { decision = "perhaps", tool = "bash" },\n'
        '{ decision = "deny", tool = "bash" }, 5,\n'
        '{ decision = "deny", tool = 5 }, { decision = "deny", tool = "bash", when = "x" }]\n'
    )
    assert book.rules_for(folder, NOTHING, trusted=True) == (Rule(decision="deny", tool="bash", scope="user"),)
    assert book.problems(folder, trusted=True) == (
        "config.toml: rule 1 is ignored: it would allow everything; use auto mode instead",
        "config.toml: rule 2 is ignored: its decision is not allow, ask or deny",
        "config.toml: rule 4 is ignored: it is not a table",
        "config.toml: rule 5 is ignored: its tool, pattern and folder must be strings",
        "config.toml: rule 6 is ignored: it has an unknown field when",
    )


async def test_an_ignored_rule_is_reported_once(tmp_path: Path) -> None:
    rules = 'rules = [{ decision = "never", tool = "bash" }]\n'
    async with rig(tmp_path, say("one"), say("two"), files={".pilotfish/rules.toml": rules}) as turn:
        await turn.prompt("hi")
        await turn.prompt("go on")
        assert turn.notices() == [".pilotfish/rules.toml: rule 1 is ignored: its decision is not allow, ask or deny."]


async def test_ignored_rules_of_a_folder_are_reported_in_the_turn_that_trusts_it(tmp_path: Path) -> None:
    files = {
        "AGENTS.md": "Be brief.\n",
        ".pilotfish/rules.toml": 'rules = [{ decision = "never", tool = "bash" }]\n',
    }
    async with rig(tmp_path, say("one"), files=files, trusted=False) as turn:

        async def trust(folder: Path) -> None:
            turn.engine.book.trust(folder, True)

        turn.engine.ask_for_trust = trust
        turn.engine.book = RuleBook(tmp_path / "config.toml")
        await turn.prompt("hi")
        assert turn.notices() == [".pilotfish/rules.toml: rule 1 is ignored: its decision is not allow, ask or deny."]


def test_rules_that_cannot_be_stored_are_refused(book: RuleBook, folder: Path) -> None:
    for bad in (rule("*", tool="*"), rule("a\u200b"), rule("x", scope="session"), rule("x", scope="repository")):
        with pytest.raises(StorageError):
            book.add(bad, folder)
    with pytest.raises(StorageError):
        book.add(rule("x"), None)
    assert book.rules_for(folder, NOTHING, trusted=True) == ()


def test_a_configuration_that_cannot_be_written_is_an_error(book: RuleBook, folder: Path) -> None:
    book.path.parent.write_text("a file is in the way")
    with pytest.raises(StorageError):
        book.add(rule("x"), folder)


def test_trust_that_cannot_be_written_applies_in_this_process(book: RuleBook, folder: Path) -> None:
    book.path.parent.mkdir()
    book.path.write_text("broken = = ")
    with pytest.raises(StorageError):
        book.trust(folder, True)
    assert (book.trust_of(folder), RuleBook(book.path).trust_of(folder)) == (True, None)
    book.path.write_text("")
    book.trust(folder, False)
    assert (book.trust_of(folder), RuleBook(book.path).trust_of(folder)) == (False, False)
