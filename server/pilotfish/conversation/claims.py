"""Finds what an answer claims about tests, builds and files, and checks it against what the calls did.

Promises: a claim is marked `unsupported` only if no call can have shown it. What may be true for a reason that the
calls do not tell (a script of unknown content, a tool of an MCP server, the user's own words) is left alone, and so is
every sentence that plans, quotes, doubts or explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Subject = Literal["tests", "build", "file"]
Verdict = Literal["supported", "unsupported"]

MAX_TEXT = 40_000  # characters of an answer that are searched
MAX_CLAIMS = 8  # of one answer
MAX_SHOWN = 200  # characters of a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command that ran to its end."""

    command: str
    succeeded: bool
    output: str
    at: int
    """position among the calls of the session"""
    harmless: bool = False
    """it only reads or prepares (`ls`, `git add`, `mkdir`), so it can be neither a test nor a build"""
    reads: bool = False
    """it changes no file"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A file that a call changed."""

    path: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the calls of a session did, and whether there is more than they tell."""

    runs: Sequence[Run] = ()
    changes: Sequence[Changed] = ()
    changed_now: bool = False
    """this turn has changed a file"""
    tested_elsewhere: bool = False
    """tests may have run where this program does not see it: by an MCP server, in the user's words"""
    changed_elsewhere: bool = False
    """files may have been changed in such a way"""
    diagnosed: bool = False
    """a language server was asked for problems"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence that claims something."""

    text: str
    subject: Subject
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClaim:
    text: str
    verdict: Verdict
    evidence: str


def check_answer(answer: str, evidence: Evidence) -> tuple[CheckedClaim, ...]:
    """The claims of an answer that the calls support, or cannot support. Others are left out."""
    found: dict[str, CheckedClaim] = {}
    for claim in claims_in(answer, summary=evidence.changed_now):
        if (checked := _check(claim, evidence)) is not None:
            known = found.get(claim.text)
            if known is None or known.verdict == "supported":
                found[claim.text] = checked
    return tuple(found.values())[:MAX_CLAIMS]


# -- what an answer claims ------------------------------------------------------------------------------------------

_CODE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1[`~]*\s*$|^ {0,3}(?:`{3,}|~{3,}).*\Z", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"^\s*>.*$|“[^”]*”|\"[^\"\n]*\"", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?:;])(?:\*\*|[*_)])*\s+|\n+|\s[—–]\s")

_NO_CLAIM = re.compile(
    r"\b(?:not|never|cannot|unable|fail(?:s|ed|ing)?|except|almost|nearly|most|only|but"
    r"|should|would|could|might|may|must|will|shall|can|going to|want|plan|propose|suggest|recommend|let me|let's"
    r"|i'll|we'll|you'll|please|next|needs? to|have to|try|to make|so that|to (?:ensure|verify|check|confirm|see)"
    r"|make sure|ensure|(?:verify|confirm|check) that|if|whether|unless|until|once|when|whenever|while|because"
    r"|before|after you|provided|assuming|assume|expect|(?:is|are) expected|hope|hopefully|probably|likely"
    r"|presumably|ideally|goal|example|says?|said|states?"
    r"|claims?|claimed|reports? that|reported|according|mentions?|shows? that|ci|upstream"
    r"|previously|earlier|yesterday|originally|used to|you (?:said|ran|told|mentioned)|they|requires?|means?|implies)\b"
    r"|n't\b|\?|\[ \]",
    re.IGNORECASE,
)
"""words of sentences that claim nothing of tests and builds: plans, conditions, doubts, explanations, reports"""
_NO_WORK = re.compile(
    r"\b(?:if|once|when|whenever|until|unless|before|suppose|imagine|assuming|would|should|could|what|plan|proposed?"
    r"|proposal|suggest\w*|recommend\w*|draft(?:ed)?|outlined?|below|above|snippet|understanding|example|nothing|list"
    r"|no changes?|todo|already|previously|earlier|yesterday)\b|\?|\[ \]",
    re.IGNORECASE,
)
"""words of sentences that do not claim a change of a file in this turn"""

_TESTS = re.compile(
    r"\ball(?: of)?(?: the| my| our)?(?: \d+)?(?: \w+){0,3} (?:tests?|specs)(?: \w+)?"
    r" (?:now |still |are |have |are now |are all )?(?:pass(?:ed|ing|es)?|green|succeed(?:ed)?)\b"
    r"|\b(?:the )?(?:tests|specs|test suite)(?: now| all| still| are| is)+"
    r" (?:pass(?:es|ed|ing)?|green)\b"
    r"|\b(?:the )?(?:whole |full |entire |complete )?test suite (?:pass(?:es|ed)|succeed(?:s|ed)|is green)\b"
    r"|\b\d+ (?:\w+ )?tests? (?:pass(?:ed)?|succeeded)\b|\b\d+/\d+ tests? pass(?:ed|ing)?\b"
    r"|\bI(?:'ve| have)?(?: also| just| then)? (?:ran|run|re-ran|rerun|executed) (?:all |the |all the |our |your )?"
    r"(?:\w+ ){0,2}(?:tests?|test suite|specs)\b"
    r"|\b(?:verified|confirmed) (?:by|with) (?:running )?(?:the |all )?tests?\b",
    re.IGNORECASE,
)
_BUILD = re.compile(
    r"\b(?:the |project |code |it |everything )(?:now |still )?"
    r"(?:builds|compiles)(?: now| again)? (?:cleanly|successfully|without (?:any )?(?:errors?|warnings?|problems?))"
    r"|\b(?:the )?build (?:now |still )?"
    r"(?:succeeds|succeeded|passes(?! \w+ (?:to|through|into)\b)|passed|is green|is clean)\b"
    r"|\b(?:the )?(?:linter|lint|linting|type ?check(?:er|ing|s)?|mypy|pyright|ruff|eslint|tsc|clippy)"
    r" (?:now |still )?"
    r"(?:passes(?! (?:over|through)\b)|passed|is clean|is green|reports no (?:errors|issues|problems))",
    re.IGNORECASE,
)
_VERBS = (
    r"(?:updated|changed|edited|modified|created|added|deleted|removed|renamed|moved|wrote|written|rewrote|rewritten"
    r"|fixed|refactored|replaced|implemented)"
)
_FIRST_PERSON = re.compile(
    rf"\b(?:I|We)(?:'ve| have)?(?: also| now| just| then| both)? {_VERBS}\b(?! by\b)", re.IGNORECASE
)
_SUMMARY_LINE = re.compile(rf"^\s*(?:[-*•+]|\d+[.)])\s+(?:\*\*)?{_VERBS}\b(?! by\b| in\b)", re.IGNORECASE)

_FILE = re.compile(r"`([^`\s]+)`|(?<![\w/@.:-])((?:[\w.-]+/)*[\w-]+\.\w{1,6})(?![\w/(])")
_SUFFIXES = frozenset({
    "py", "pyi", "ipynb", "js", "jsx", "ts", "tsx", "mjs", "cjs", "vue", "svelte", "go", "rs", "java", "kt", "kts",
    "scala", "c", "h", "cc", "cpp", "hpp", "cs", "fs", "rb", "php", "pl", "lua", "swift", "m", "mm", "sh", "bash",
    "zsh", "fish", "ps1", "bat", "sql", "html", "htm", "css", "scss", "sass", "less", "md", "rst", "txt", "json",
    "jsonc", "yaml", "yml", "toml", "ini", "cfg", "xml", "gradle", "el", "clj", "cljs", "ex", "exs", "erl", "hs", "ml",
    "r", "jl", "dart", "proto", "tf", "nix", "zig", "csv", "lock",
})  # fmt: skip
_NOT_FILES = frozenset({
    "node.js", "next.js", "vue.js", "nuxt.js", "react.js", "express.js", "three.js", "d3.js", "angular.js", "socket.io",
})  # fmt: skip


def claims_in(answer: str, *, summary: bool) -> Iterator[Claim]:
    """The claims of an answer, in its order. `summary`: lines such as `- Updated x.py` are about the agent's work."""
    text = _QUOTED.sub(" ", _CODE.sub("\n", answer[:MAX_TEXT]))
    for raw in _SENTENCE.split(text):
        sentence = raw.strip()
        plain = sentence.replace("*", "").replace("’", "'")
        if not plain or plain.startswith("#"):
            continue
        words = re.sub(r"`[^`]*`", "`", plain)  # code is no prose
        shown = sentence[:MAX_SHOWN]
        if not _NO_CLAIM.search(words):
            if _TESTS.search(plain):
                yield Claim(text=shown, subject="tests")
            elif _BUILD.search(plain):
                yield Claim(text=shown, subject="build")
        by_agent = _FIRST_PERSON.search(words) or (summary and _SUMMARY_LINE.search(raw))
        if by_agent and not _NO_WORK.search(words) and (files := tuple(_files(plain))):
            yield Claim(text=shown, subject="file", files=files)


def _files(sentence: str) -> Iterator[str]:
    for match in _FILE.finditer(sentence):
        name = (match[1] or match[2]).removeprefix("./")
        suffix = PurePosixPath(name).suffix.removeprefix(".").lower()
        if suffix in _SUFFIXES and name.lower() not in _NOT_FILES and not re.search(r"[*?<>{}()$=,]|://", name):
            yield name


# -- what the calls show --------------------------------------------------------------------------------------------

_TEST_RUN = re.compile(
    r"(?i)(?<![\w-])(?:py\.?test|unittest|tox|nox|jest|vitest|mocha|ava|karma|cypress|playwright|rspec|phpunit|ctest|bats"
    r"|busted|nextest|(?:go|cargo|npm|npm run|yarn|yarn run|pnpm|pnpm run|bun|bun run|deno|mix|sbt|dotnet|swift|stack"
    r"|cabal|zig build|bazel|rake|just|task|make|mvn|gradle|gradlew|lein|dart|flutter)"
    r" [\w:. -]*(?:test|check|verify|spec))"
)
_BUILD_RUN = re.compile(
    r"(?i)(?<![\w-])(?:make|cmake|ninja|tsc|mypy|pyright|ruff|flake8|pylint|eslint|biome|clippy|gcc|g\+\+|clang|javac|rustc"
    r"|cargo (?:build|check|clippy)|go (?:build|vet)|(?:npm|yarn|pnpm|bun)(?: run)? [\w:-]*(?:build|lint|check|type)"
    r"|mvn|gradlew?|dotnet build|swift build|py_compile|compileall)\b"
)
_FAILURES = re.compile(
    r"^=+.*\b[1-9]\d* (?:failed|errors?)\b|^FAILED \(|test result: FAILED|^Tests?:\s+[1-9]\d* failed|^--- FAIL|^FAIL\b"
    r"|^\s*[1-9]\d* failing\b|^[1-9]\d* examples?, [1-9]\d* failures?|FAILURES!",
    re.MULTILINE,
)
_PASSES = re.compile(
    r"\b[1-9]\d* passed\b|^OK\b|test result: ok|^ok\s|^PASS\b|\b[1-9]\d* passing\b|, 0 failures|All tests passed",
    re.MULTILINE | re.IGNORECASE,
)
_PROSE_SUFFIXES = frozenset({".md", ".rst", ".txt", ".adoc", ".gitignore", ""})


def is_test_run(command: str) -> bool:
    """Whether a command is known to run tests."""
    return _TEST_RUN.search(command) is not None


def _check(claim: Claim, evidence: Evidence) -> CheckedClaim | None:
    match claim.subject:
        case "tests":
            return _check_run(claim, evidence, _TEST_RUN, "tests")
        case "build":
            if evidence.diagnosed:
                return None
            return _check_run(claim, evidence, _BUILD_RUN, "build or check")
        case "file":
            return _check_files(claim, evidence)


def _check_run(claim: Claim, evidence: Evidence, known: re.Pattern[str], what: str) -> CheckedClaim | None:
    if evidence.tested_elsewhere:
        return None
    possible = [run for run in evidence.runs if not run.harmless]
    if not possible:
        return _unsupported(claim, f"no command ran that could be {what}")
    last = possible[-1]
    if not known.search(last.command):
        return None
    if _FAILURES.search(last.output):
        return _unsupported(claim, f"the last run of {what} reports failures: {_name(last)}")
    if not last.succeeded:
        return None if _PASSES.search(last.output) else _unsupported(claim, f"{_name(last)} failed")
    later = [
        change.path
        for change in evidence.changes
        if change.at > last.at and PurePosixPath(change.path).suffix.lower() not in _PROSE_SUFFIXES
    ]
    if later:
        name = PurePosixPath(later[-1]).name
        return _unsupported(claim, f"{name} was changed after the last run of {what} ({_name(last)})")
    return CheckedClaim(text=claim.text, verdict="supported", evidence=f"{_name(last)} succeeded")


def _check_files(claim: Claim, evidence: Evidence) -> CheckedClaim | None:
    changed = [PurePosixPath(change.path) for change in evidence.changes]
    for name in claim.files:
        wanted = PurePosixPath(name.lower()).parts
        for path in changed:
            parts = PurePosixPath(str(path).lower()).parts
            if parts[-len(wanted) :] == wanted or path.name.lower() == wanted[-1]:
                return CheckedClaim(text=claim.text, verdict="supported", evidence=f"a call changed {path.name}")
    if evidence.changed_elsewhere or any(not run.reads for run in evidence.runs):
        return None
    return _unsupported(claim, f"no call changed {' or '.join(claim.files)}")


def _unsupported(claim: Claim, evidence: str) -> CheckedClaim:
    return CheckedClaim(text=claim.text, verdict="unsupported", evidence=evidence)


def _name(run: Run) -> str:
    line = " ".join(run.command.split())
    return f"`{line[:60]}…`" if len(line) > 60 else f"`{line}`"
