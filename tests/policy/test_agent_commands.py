"""How often a user is asked about the commands that coding agents run, where the sandboxes stand; and that no command
that needs more than the workspace runs unasked outside a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.support.policy import agent_commands

from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.policy import places
from pilotfish.policy.judge import judge
from pilotfish.policy.verdict import Mode, Verdict
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import resolve

AT_MOST = {Mode.ASK: 35, Mode.EDIT: 12, Mode.AUTO: 5}
"""Percent of the commands that are asked about."""
BEYOND = ("network", "outside", "deletes", "hidden", "destructive")
Judged = Callable[[str, Mode], Verdict]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    place = tmp_path_factory.mktemp("agent").resolve()
    in_tmp = places.is_scratch
    root, home = place / "project", place / "home"
    files = "README.md src/app.py src/models/user.py tests/test_app.py web/package.json crates/Cargo.toml docs/usage.md"
    for name in (*files.split(), "internal/store/store.go", "package.json", ".env", "secrets.json", "link/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    for name in (".git/hooks", ".vscode", ".github/workflows", "node_modules/react"):
        (root / name).mkdir(parents=True)
    for name in (".bashrc", ".ssh/config", "other-project/x"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x\n")
    (place / "sibling").mkdir()
    (place / "sibling/README.md").write_text("x\n")
    where = partial(resolve, roots=(root,), home=home)

    def verdict(command: str, mode: Mode) -> Verdict:
        subject = Subject(command=command)
        facts = collect("bash", Category.EXECUTE, subject, resolve=where, directory=root, walled=True, confined=True)
        return judge(facts, mode)

    def is_scratch(path: str) -> bool:
        return in_tmp(path) and not path.startswith(str(place))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "is_scratch", is_scratch)  # the home of this test is in /tmp, which a real one is not
        yield verdict


@pytest.mark.parametrize("mode", AT_MOST)
def test_few_commands_are_asked_about(mode: Mode, judged: Judged) -> None:
    commands = list(agent_commands(counted=True))
    asked = [command for _, command in commands if judged(command, mode).decision == "ask"]
    share = 100 * len(asked) / len(commands)
    print(f"{mode}: {len(asked)} of {len(commands)} commands are asked about ({share:.1f} %)")  # noqa: T201
    assert len(commands) >= 600
    assert share <= AT_MOST[mode]


def test_reading_is_never_asked_about_and_changes_nothing(judged: Judged) -> None:
    for mode in Mode:
        verdicts = {command: judged(command, mode) for label, command in agent_commands() if label == "read"}
        wrong = [command for command, it in verdicts.items() if (it.decision, it.wall) != ("allow", "read_only")]
        assert wrong == []


def test_work_inside_the_workspace_is_not_asked_about_in_edit_and_has_no_network(judged: Judged) -> None:
    for mode in (Mode.EDIT, Mode.AUTO):
        verdicts = {command: judged(command, mode) for label, command in agent_commands() if label == "inside"}
        assert [command for command, it in verdicts.items() if it.decision != "allow" or it.network] == []


def test_what_needs_more_is_asked_about_or_walled(judged: Judged) -> None:
    """In `ask`, `plan` and `edit` it is asked about or denied. In `auto` it may run in a sandbox without network."""
    for label, command in agent_commands():
        if label not in BEYOND:
            continue
        for mode in Mode:
            verdict = judged(command, mode)
            walled = verdict.wall == "read_only" or (mode is Mode.AUTO and not verdict.network)
            assert verdict.decision != "allow" or walled, (mode, command)
        for mode in (Mode.ASK, Mode.EDIT):
            assert judged(command, mode).decision != "allow", (mode, command)


@pytest.mark.parametrize("label", ["outside", "destructive"])
def test_what_cannot_be_taken_back_is_asked_about_in_every_mode(label: str, judged: Judged) -> None:
    commands = [command for kind, command in agent_commands() if kind == label]
    assert [command for command in commands for mode in Mode if judged(command, mode).decision == "allow"] == []
