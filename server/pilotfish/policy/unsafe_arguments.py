"""The arguments that a rule for a command prefix, such as `npm test *`, covers.

"Always allow" suggests a rule for a known prefix. Such a rule, suggested or written by hand, covers a short list of
flags. For programs whose operands are files it also covers files of the workspace. It never covers another target or an
argument that makes the program run, read or write something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PREFIXES: tuple[tuple[str, ...], ...] = tuple(
    tuple(line.split())
    for line in (
        "npm test", "npm run test", "npm run lint", "npm run build", "npm run typecheck", "npm run format",
        "npm run check", "yarn test", "yarn lint", "yarn build", "pnpm test", "pnpm lint", "pnpm build",
        "pnpm run test", "bun test", "pytest", "python -m pytest", "python3 -m pytest", "uv run pytest",
        "poetry run pytest", "tox", "nox", "ruff check", "ruff format", "mypy", "pyright", "eslint", "npx eslint",
        "npx tsc", "tsc", "prettier", "npx prettier", "cargo test", "cargo check", "cargo build", "cargo clippy",
        "cargo fmt", "go test", "go build", "go vet", "gofmt", "make test", "make lint", "make build",
        "make check", "mvn test", "gradle test", "./gradlew test", "dotnet test", "dotnet build",
        "bundle exec rspec", "rspec", "mix test", "swift test", "swift build", "ctest", "jest", "npx jest",
        "vitest", "npx vitest", "git add", "git commit -m",
    )
)  # fmt: skip
"""Commands for which a prefix rule is suggested. For all others the suggested rule is the exact command."""

_HARMLESS = {
    "npm": "--silent -s --if-present",
    "yarn": "--silent",
    "pnpm": "--silent -s",
    "bun": "--bail",
    "pytest": "-q -v -vv -x -s -l -k= -m= --lf --ff --sw --tb= --maxfail= --durations= -n= -ra -rA --no-header --co",
    "tox": "-q -v -e=",
    "nox": "-s=",
    "ruff": "--fix --diff --check --quiet -q --select= --ignore= --no-cache --statistics --output-format=",
    "mypy": "--strict --no-error-summary --pretty --show-error-codes",
    "pyright": "--stats --warnings --verbose",
    "eslint": "--fix --quiet --max-warnings= --cache --ext=",
    "tsc": "--noEmit --watch --pretty --strict --skipLibCheck",
    "prettier": "--check --write -c -w -l --list-different",
    "cargo": "--all --workspace --release --lib --bins --tests --all-targets --all-features --verbose -v -q --quiet "
    "--no-run --no-fail-fast -p= --package= --test= --bin= --features= --check",
    "go": "-v -race -short -count= -run= -bench= -failfast -cover -timeout= -tags=",
    "gofmt": "-l -d -s",
    "make": "-s --silent -k -n -B",
    "mvn": "-q -B -o",
    "gradle": "-q --info --stacktrace --offline --no-daemon --rerun-tasks",
    "gradlew": "-q --info --stacktrace --offline --no-daemon --rerun-tasks",
    "dotnet": "--no-restore --no-build --nologo --filter= -c= --configuration= -v=",
    "rspec": "-fd --fail-fast --only-failures -e=",
    "mix": "--trace --failed --stale --only= --exclude=",
    "swift": "--parallel --filter= -v -c=",
    "ctest": "-V -VV -R= -E= -j= --output-on-failure --rerun-failed",
    "jest": "--verbose --watch=false --watchAll=false --ci --coverage --bail -t= --silent --runInBand --onlyChanged",
    "vitest": "--run run -t= --bail= --silent --coverage",
    "git": "-A -u --all -v -p",
}  # fmt: skip
"""The flags of each program that a prefix rule covers. A flag with `=` takes a value in the same word or the next one.
Policy asks about all other flags."""
_FILES = frozenset({
    "pytest", "ruff", "mypy", "pyright", "eslint", "tsc", "prettier", "gofmt", "go", "rspec", "jest", "vitest", "mix",
    "bun", "git",
})  # fmt: skip
"""Programs whose further operands are files. For all other programs they are further targets."""
_OPERAND = re.compile(r"(?![-/~])(?!.*(?:^|/)\.\.(?:/|$))[A-Za-z0-9_./:@\[\], -]+")
"""A file of the workspace, or a test in one."""


def known_prefix(words: Sequence[str]) -> tuple[str, ...]:
    """Return the longest prefix of a command for which a rule is suggested. Empty if there is none."""
    return max((known for known in PREFIXES if tuple(words[: len(known)]) == known), key=len, default=())


def breaks_out(words: Sequence[str], prefix: int) -> bool:
    """Whether the words after the first `prefix` ones may change what the command does.

    Every flag that is not listed as harmless may. For a program that is not listed, a rule covers only operands that
    are files of the workspace.
    """
    name = next((name for name in reversed(_programs(words[:prefix])) if name in _HARMLESS), "")
    known = _HARMLESS.get(name, "").split()
    takes_message = list(words[:prefix]) == ["git", "commit", "-m"]
    rest = list(words[prefix:])
    if takes_message:
        return len(rest) != 1 or rest[0].startswith("-")
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if word == "--":
            return not all(_OPERAND.fullmatch(word) or word in known or word in _RUNNER_FLAGS for word in rest)
        if word.startswith("-"):
            if word in known or (equals and f"{flag}=" in known):
                continue
            if f"{word}=" in known and rest and not rest[0].startswith("-"):
                rest.pop(0)
                continue
            return True
        if not _all_files(name, [word]):
            return True
    return False


def _all_files(name: str, words: Sequence[str]) -> bool:
    return (name in _FILES or not name) and all(_OPERAND.fullmatch(word) for word in words)


_RUNNER_FLAGS = frozenset(
    [
        "--watch=false",
        "--watchAll=false",
        "--ci",
        "--coverage",
        "--verbose",
        "--silent",
        "--bail",
        "--run",
        "--runInBand",
        "--fix",
        "--check",
    ]
)


def harmless_flag(words: Sequence[str]) -> str:
    """Return a flag that a rule for these words covers, as an example. Empty if there is none."""
    name = next((name for name in reversed(_programs(words)) if name in _HARMLESS), "")
    plain = [flag for flag in _HARMLESS.get(name, "").split() if not flag.endswith("=")]
    return plain[0] if plain and list(words) != ["git", "commit", "-m"] else ""


def _programs(words: Sequence[str]) -> list[str]:
    return [word.rsplit("/", 1)[-1].rstrip("3") for word in words]


def is_final(words: Sequence[str]) -> bool:
    """Whether a command deletes, pushes or publishes: then "always allow" is not offered."""
    name, rest = words[0].rsplit("/", 1)[-1], set(words[1:])
    if name in {"rm", "rmdir", "unlink", "shred", "trash", "srm", "dropdb"}:
        return True
    if name == "git":
        return bool(
            rest & {"push", "clean", "rm", "filter-branch", "gc", "prune", "send-email", "update-ref"}
            or ("reset" in rest and "--hard" in rest)
            or ("branch" in rest and rest & {"-d", "-D", "--delete"})
            or ("stash" in rest and rest & {"drop", "clear"})
            or ("checkout" in rest and rest & {"--", "-f", "--force", "."})
            or "restore" in rest
        )
    if name == "find":
        return "-delete" in rest
    publishers = {
        "npm",
        "pnpm",
        "yarn",
        "cargo",
        "twine",
        "poetry",
        "uv",
        "gem",
        "docker",
        "podman",
        "kubectl",
        "gh",
        "helm",
    }
    return name in publishers and bool(rest & {"publish", "push", "upload", "delete", "yank", "unpublish", "uninstall"})


def is_open(words: Sequence[str]) -> bool:
    """Whether the effect of a command depends on its input: then no rule could say what it allows."""
    return words[0] in {"xargs", "parallel", "eval", "source", "."}
