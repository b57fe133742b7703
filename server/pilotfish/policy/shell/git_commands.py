"""The git commands that only read, and the flags with which they still only read.

Programs that a repository's own settings make git run are not checked here. `workspace/sandbox/sandbox.py` overrides
most of those settings, and `CallFacts.git_programs` lists the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pilotfish.policy.shell.arguments import Doubt, Judge, ParsedArguments, Read, Spec, check, spec

_LOOK = (
    "-p -u -s --patch --no-patch --raw --stat? --numstat --shortstat --dirstat? --summary --name-only "
    "--name-status --no-renames --color? --no-color --word-diff? --color-words? --minimal --patience "
    "--histogram --diff-algorithm$ -w -b --ignore-all-space --ignore-space-change --ignore-space-at-eol "
    "--ignore-blank-lines --ignore-cr-at-eol --full-index --binary --abbrev? --find-renames? "
    "--diff-filter$ -S$ -G$ --pickaxe-all --pickaxe-regex --relative? -U# --unified# --no-prefix "
    "--function-context -W --inter-hunk-context# -M -z -a --text --no-ext-diff --no-textconv --exit-code "
    "--quiet -R --compact-summary --cc -c -m --check --submodule? --ignore-submodules?"
)
_WALK = (
    "--oneline --graph --decorate? --no-decorate --all --branches? --tags? --remotes? --author$ "
    "--committer$ --grep$ --since$ --after$ --until$ --before$ -n# --max-count# --skip# --reverse --merges "
    "--no-merges --first-parent --follow --pretty? --format$ --abbrev-commit --no-abbrev-commit --date$ "
    "--date-order --topo-order --author-date-order --left-right --cherry-pick --cherry-mark --boundary -i "
    "-E -F --invert-grep --all-match --source --full-history --simplify-merges --ancestry-path --no-walk "
    "--parents --children --count --objects --not --regexp-ignore-case --extended-regexp --fixed-strings "
    "--reflog -g --walk-reflogs --notes? --no-notes --no-expand-tabs"
)
_FORMATS = re.compile(r"oneline|short|medium|full|fuller|reference|email|raw|t?format:.*|.*%.*", re.DOTALL)


def _paths(args: ParsedArguments) -> Read | Doubt:
    """Operands of git may be revisions or paths. Each counts as a path; of `revision:path` only the path counts."""
    for value in args.values("--pretty", "--format"):
        if "%G" in value or "signature" in value:
            return Doubt("git would run a program to check signatures")
    # A format may also be a name that the settings of the repository define.
    if not all(_FORMATS.fullmatch(value) for value in args.values("--pretty") if value):
        return Doubt("this output format is defined by the settings of the repository")
    paths: list[str] = []
    for word in args.operands:
        revision, colon, path = word.partition(":")
        if not revision and colon:
            return Doubt("this git revision or path cannot be checked")
        paths.append(path if colon and path else revision)
    return Read((*args.paths, *paths))


def _nothing(args: ParsedArguments) -> Read | Doubt:
    return Doubt("this git command may change something") if args.operands else Read()


def _names(args: ParsedArguments) -> Read | Doubt:
    """For branch and tag: they only read without operands, or with `--list`."""
    if args.operands and not args.has("-l", "--list"):
        return Doubt("git would create, move or delete a branch or tag")
    if any("signature" in value for value in args.values("--format")):
        return Doubt("git would run a program to check signatures")
    return Read()


def _remote(args: ParsedArguments) -> Read | Doubt:
    if not args.operands or (len(args.operands) == 2 and args.operands[0] == "get-url"):
        return Read()
    return Doubt("git remote would change or contact a remote")


def _only(**allowed: int) -> Judge:
    """The allowed subcommands, each with its maximum number of operands."""

    def judge(args: ParsedArguments) -> Read | Doubt:
        most = allowed.get(args.operands[0]) if args.operands else None
        if most is not None and len(args.operands) - 1 <= most:
            return Read()
        return Doubt("this git command may change something")

    return judge


def _config(args: ParsedArguments) -> Read | Doubt:
    keys = args.values("--get", "--get-all")
    if len(keys) == 1 and re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*\.[A-Za-z0-9.-]+", keys[0]) and not args.operands:
        return Read()
    return Doubt("git config would change settings or list all of them")


def _grep(args: ParsedArguments) -> Read | Doubt:
    files = args.operands if args.has("-e") else args.operands[1:]
    found = _paths(ParsedArguments(args.flags, tuple(files), args.paths))
    if isinstance(found, Doubt) or not args.has("--untracked"):
        return found
    return Read(found.paths or (".",), recursive=True)


def _reflog(args: ParsedArguments) -> Read | Doubt:
    if args.operands and args.operands[0] in {"expire", "delete", "drop", "write", "exists"}:
        return Doubt("git reflog would change the reflog")
    return _paths(args)


GIT: dict[str, Spec] = {
    "status": spec(
        "-s --short -uno -uall -unormal -b --branch --porcelain? --long -v -u --untracked-files? "
        "--ignored? -z --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames "
        "--show-stash --ignore-submodules?",
        _paths,
    ),
    "diff": spec(f"{_LOOK} --cached --staged --merge-base", _paths),
    "log": spec(f"{_LOOK} {_WALK}", _paths, digits=True),
    "show": spec(f"{_LOOK} {_WALK}", _paths, digits=True),
    "whatchanged": spec(f"{_LOOK} {_WALK}", _paths, digits=True),
    "shortlog": spec(f"{_WALK.replace('-n# ', '-n ')} -s -e -c --summary --numbered --email", _paths),
    "rev-list": spec(_WALK, _paths, digits=True),
    "blame": spec("-L$ -l -t -s -e -w -f -n -p --date$ --abbrev? --show-email --show-name --show-number", _paths),
    "rev-parse": spec(
        "--abbrev-ref --short? --verify -q --quiet --show-toplevel --show-prefix --show-cdup --git-dir "
        "--absolute-git-dir --git-common-dir --is-inside-work-tree --is-inside-git-dir "
        "--is-bare-repository --symbolic --symbolic-full-name --all --branches? --tags? --remotes? "
        "--is-shallow-repository --show-superproject-working-tree",
        _paths,
    ),
    "branch": spec(
        "-a --all -r --remotes -v --verbose --show-current -l --list --contains$ --no-contains$ --merged$ "
        "--no-merged$ --points-at$ --sort$ --format$ --color? --no-color --column? --no-column --abbrev? "
        "-i --ignore-case",
        _names,
    ),
    "tag": spec(
        "-l --list -n --contains$ --no-contains$ --merged$ --no-merged$ --points-at$ --sort$ --format$ "
        "--color? --column?",
        _names,
    ),
    "remote": spec("-v --verbose", _remote),
    "ls-files": spec(
        "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k "
        "--killed -z -t -v --directory --no-empty-directory --exclude-standard -x$ --exclude$ --full-name "
        "--abbrev? --error-unmatch --eol --deduplicate",
        _paths,
    ),
    "ls-tree": spec("-r -d -t -l --long -z --name-only --name-status --full-name --full-tree --abbrev?", _paths),
    "cat-file": spec("-p -t -s -e", _paths),
    "describe": spec("--tags --all --always --long --abbrev? --contains --match$ --exclude$ --exact-match", _paths),
    "merge-base": spec("-a --all --octopus --independent --is-ancestor --fork-point", _paths),
    "name-rev": spec("--name-only --tags --refs$ --always", _paths),
    "for-each-ref": spec("--format$ --sort$ --count# --contains$ --merged$ --points-at$", _paths),
    "show-ref": spec("--head --heads --tags --verify -d --dereference -s --hash? --abbrev? -q --quiet", _paths),
    "diff-tree": spec(f"{_LOOK} -r -t --root --no-commit-id --pretty? --format$ -v", _paths),
    "check-ignore": spec("-v --verbose -q --quiet -n --non-matching --no-index", _paths),
    "count-objects": spec("-v -H", _nothing),
    "reflog": spec(f"{_WALK} --stat", _reflog, digits=True),
    "stash": spec("-p --patch --stat --name-only --name-status", _only(list=0, show=1)),
    "worktree": spec("-v --verbose --porcelain", _only(list=0)),
    "config": spec("--get$ --get-all$ --local --global --system -z --show-origin --show-scope", _config),
    "grep": spec(
        "-n --line-number -i --ignore-case -l --files-with-matches -L -c --count -w --word-regexp -v -h -H "
        "-o -E -F -P -G -A# -B# -C# -W -p -e$ -I -a --heading --break --color? --no-color --cached "
        "--untracked --max-depth# -q -z --name-only --and --or --not --all-match --column --show-function "
        "--full-name",
        _grep,
    ),
}


def folder_of(rest: Sequence[str]) -> tuple[str, Sequence[str]] | Doubt:
    """Return the directory of `git -C`, and the words from the git subcommand on."""
    at, directory = 0, ""
    while at < len(rest) and rest[at].startswith("-"):
        match rest[at]:
            case "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs":
                at += 1
            case "-C" if not directory and at + 1 < len(rest) and _plain_folder(rest[at + 1]):
                directory = rest[at + 1]
                at += 2
            case flag:
                return Doubt(f"git {flag.partition('=')[0]} can make git run any program or access any file")
    return directory, rest[at:]


def git(rest: Sequence[str]) -> Read | Doubt:
    where = folder_of(rest)
    if isinstance(where, Doubt):
        return where
    directory, words = where
    if not words:
        return Doubt("the git command is missing")
    known = GIT.get(words[0])
    if known is None:
        return Doubt(f"git {words[0]} may change the repository")
    found = check(f"git {words[0]}", known, words[1:])
    if isinstance(found, Doubt):
        return found
    here = directory or "."
    paths = (here, *(joined(directory, path) for path in found.paths))
    return Read(paths, found.recursive)


def joined(directory: str, path: str) -> str:
    """Return `path`, which is relative to `directory`, as a path relative to the start directory."""
    return path if not directory or path.startswith(("/", "~")) else f"{directory.rstrip('/')}/{path}"


def _plain_folder(word: str) -> bool:
    return bool(word) and not word.startswith(("-", "~")) and ".." not in word.split("/")
