from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilotfish.workspace.files.sensitive import Sensitivity, mark_of, may_name_secret

HOME = Path("/home/someone")


def mark(path: str) -> Sensitivity | None:
    return mark_of([Path(path)], HOME)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/w/.env", "environment file, often with secrets"),
        ("/w/.env.production", "environment file, often with secrets"),
        ("/w/config/prod.env", "environment file, often with secrets"),
        ("/w/.envrc", "environment file, often with secrets"),
        ("/w/deploy/id_ed25519", "private key"),
        ("/w/tls/server.key", "private key"),
        ("/w/cert.pem", "private key"),
        ("/home/someone/.ssh/config", "key store"),
        ("/home/someone/.aws/credentials", "cloud credentials"),
        ("/w/service-account-prod.json", "cloud credentials"),
        ("/w/secrets.yaml", "credentials"),
        ("/w/credentials.json", "credentials"),
        ("/w/.npmrc", "credentials"),
        ("/w/.git/config", "credentials"),
        ("/w/main.tfstate.backup", "infrastructure state with secrets"),
        ("/home/someone/.bash_history", "history of commands"),
        ("/home/someone/.config/gh/hosts.yml", "credentials"),
    ],
)
def test_files_with_secrets_are_marked_as_such(path: str, why: str) -> None:
    assert mark(path) == Sensitivity(why, secret=True)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/w/.git", "git internals"),
        ("/w/.git/hooks/pre-commit", "git internals"),
        ("/w/sub/.git/objects/aa/bb", "git internals"),
        ("/w/.husky/pre-commit", "runs on commit"),
        ("/home/someone/.bashrc", "shell start-up file"),
        ("/home/someone/.config/fish/config.fish", "shell start-up file"),
        ("/w/.vscode/settings.json", "editor settings"),
        ("/w/x.code-workspace", "editor settings"),
        ("/w/.exrc", "editor settings"),
        ("/w/AGENTS.md", "instructs agents"),
        ("/w/src/CLAUDE.local.md", "instructs agents"),
        ("/w/.cursor/rules/x.mdc", "instructs agents"),
        ("/w/.github/copilot-instructions.md", "instructs agents"),
        ("/w/.pilotfish/commands/x.md", "instructs agents"),
        ("/w/.github/workflows/ci.yml", "runs on a build server"),
        ("/w/.gitlab-ci.yml", "runs on a build server"),
        ("/w/Jenkinsfile", "runs on a build server"),
        ("/home/someone/.config/autostart/x.desktop", "starts with the session"),
        ("/home/someone/.config/nvim/init.lua", "settings of other programs"),
        ("/home/someone/Library/Application Support/x/y.json", "settings of other programs"),
    ],
)
def test_files_that_do_something_when_changed_are_marked_as_such(path: str, why: str) -> None:
    assert mark(path) == Sensitivity(why, secret=False)


@pytest.mark.parametrize(
    "path",
    [
        "/w/src/main.py",
        "/w/environment.py",
        "/w/src/secrets.py",
        "/w/src/credentials.ts",
        "/w/id_rsa.pub",
        "/w/.gitignore",
        "/w/.github/ISSUE_TEMPLATE.md",
        "/w/keyboard.json",
        "/w/.config/x",
        "/elsewhere/bin/tool",
    ],
)
def test_ordinary_files_are_not_marked(path: str) -> None:
    assert mark(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/w/.ENV",
        "/w/.env. ",
        "/w/.env::$DATA",
        "/w/.\u200benv",
        "/w/．env",
        "/w/.GIT/config",
        "/w/GIT~1/x",
    ],
)
def test_names_that_a_forgiving_file_system_takes_for_sensitive_ones_are_marked(path: str) -> None:
    assert mark(path) is not None


NAMES = st.sampled_from(
    [
        ".aws", ".SSH", ".config", "google-chrome", "gh", "hosts.yml", "Library", "Keychains", ".git", "config", ".env",
        "a.pem\n", "a.pem. ", "．env", "id_rsa:x", "docker", ".docker", "config.json", "src", "a.py", "key.pub",
        ".local", "share", "keyrings", ".bash_history", "service-account.json", "gcloud",
    ]
)  # fmt: skip


@given(st.lists(NAMES, min_size=1, max_size=5), st.sampled_from(["/w", "/home/someone"]))
@example(["a.pem\n"], "/w")
def test_only_what_may_name_a_secret_is_secret_in_a_folder_that_is_not(names: list[str], base: str) -> None:
    place = Path(base, *names)
    if _is_secret(place) and not _is_secret(place.parent):
        assert may_name_secret(place.name)


def test_most_names_cannot_name_a_secret() -> None:
    assert not any(map(may_name_secret, ("main.py", "README.md", "src", "environment.ts", "keys.go", "package.json")))


def _is_secret(place: Path) -> bool:
    mark = mark_of((place,), HOME)
    return mark is not None and mark.secret


def test_the_gravest_of_several_names_counts() -> None:
    assert mark_of([Path("/w/AGENTS.md"), Path("/w/.env")], HOME) == Sensitivity(
        "environment file, often with secrets", secret=True
    )


def test_more_names_that_tell_secrets_or_run_by_themselves() -> None:
    home = Path("/home/me")
    for name in (
        "my-service-account-1.json", "kubeconfig", "prod.kubeconfig", ".secrets.toml", "rclone.conf", "key.asc",
        "appsettings.Production.json",
    ):  # fmt: skip
        mark = mark_of([f"/w/{name}"], home)
        assert mark is not None, name
        assert mark.secret, name
    for name in (
        ".venv/bin/python", "node_modules/.bin/x", "a.pth", "sitecustomize.py", ".cargo/config.toml", "gradlew",
        ".mvn/x", ".gdbinit",
    ):  # fmt: skip
        mark = mark_of([f"/w/{name}"], home)
        assert mark is not None, name
        assert not mark.secret, name
    assert mark_of(["/w/conftest.py"], home) is None
