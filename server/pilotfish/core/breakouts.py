"""Commands whose arguments people vary, and the arguments that would make another command of them.

"Always allow" offers a rule that starts with a known prefix (`npm test *`). A rule of that form, offered or written by
hand, never covers an argument that makes the program run or write something else.
"""

from __future__ import annotations

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
"""What they do is in their name; the rule for them is a prefix. For all others it is the exact command."""

_ANY = "--config --exec --eval --plugin --require --shell --script-shell --output --out --file --directory"
_BREAKOUTS = {
    "npm": "--prefix --node-options --userconfig --globalconfig --before --workspace --script-shell",
    "yarn": "--cwd --use-yarnrc",
    "pnpm": "--dir -C --prefix",
    "pytest": "-p -c -o --rootdir --confcutdir --override-ini --basetemp --junitxml --junit-xml --log-file --pastebin "
    "--import-mode --pdbcls --config-file",
    "python": "-p -c -o --rootdir --confcutdir --override-ini --basetemp --junitxml --junit-xml --log-file --pdbcls",
    "ruff": "--config -o --output-file --cache-dir",
    "mypy": "--config-file --python-executable --cache-dir --install-types --html-report --xml-report --plugins",
    "eslint": "-c -f --rulesdir --resolve-plugins-relative-to -o --output-file --parser --format --cache-location",
    "tsc": "-p --project --outDir --outFile -b --build",
    "prettier": "--plugin --config --plugin-search-dir",
    "cargo": "--config --manifest-path --target-dir --out-dir -Z -C",
    "go": "-exec -toolexec -o -overlay -modfile -C -outputdir -cpuprofile -memprofile -coverprofile -trace -pkgdir",
    "make": "-f --file --makefile -C --directory -I --include-dir --eval -E",
    "mvn": "-f -s --settings -t --global-toolchains -D",
    "gradle": "-I --init-script -b --build-file -p --project-dir -D -g",
    "gradlew": "-I --init-script -b --build-file -p --project-dir -D -g",
    "dotnet": "-o --output --settings --diag -p --property --test-adapter-path",
    "rspec": "-r --require -o --out --options -I",
    "jest": "--config -c --globalSetup --setupFiles --testRunner --runner --reporters --outputFile --rootDir "
    "--transform",
    "vitest": "--config -c --root --globalSetup --outputFile --reporter --dir",
    "ctest": "-S -D --build-and-test --script -O --output-log",
    "git": "-c -C --config-env --exec-path --git-dir --work-tree --upload-pack --receive-pack --ext-diff --textconv "
    "--output -O --open-files-in-pager --exec --extcmd -x --template --amend --no-verify -n -F -t --edit -e "
    "--interactive -i --patch --pathspec-from-file --gpg-sign -S",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    "rg": "--pre --pre-glob --hostname-bin -z --search-zip",
    "sort": "-o --output --compress-program -T --temporary-directory --files0-from",
    "sed": "-i --in-place -f --file",
    "tar": "-I --use-compress-program --to-command --checkpoint-action -F --info-script --new-volume-script "
    "--rsh-command --rmt-command -P --absolute-names",
    "curl": "-o -O --output --remote-name -K --config -T --upload-file -d --data --data-binary --data-raw -F --form "
    "-x --proxy --output-dir -J --create-file-mode",
    "wget": "-O --output-document -o -e --execute --post-file --post-data --use-askpass -P --directory-prefix -i",
    "ssh": "-o -F -L -R -D -J -W",
    "man": "-P --pager -H --html",
    "less": "-o -O --log-file",
    "xargs": "-a --arg-file",
    "node": "-e --eval -p --print -r --require --import --loader --experimental-loader",
    "docker": "-v --volume --mount --privileged --device --pid --network --entrypoint",
    "tree": "-o -R",
    "jq": "-f --from-file -L",
    "env": "-S --split-string",
}  # fmt: skip


def breaks_out(words: Sequence[str], prefix: int) -> bool:
    """Whether what follows the first `prefix` words would make another command of it."""
    known = {*_ANY.split(), *(flag for name in _programs(words[:prefix]) for flag in _BREAKOUTS.get(name, "").split())}
    return any(_is_one_of(word, known) for word in words[prefix:] if word.startswith("-") or "=" in word)


def _programs(words: Sequence[str]) -> list[str]:
    return [word.rsplit("/", 1)[-1].rstrip("3") for word in words]


def _is_one_of(word: str, flags: set[str]) -> bool:
    """A flag, its abbreviation, or a cluster that has it."""
    name = word.partition("=")[0]
    if name in {"SHELL", "MAKEFLAGS", "CC", "PATH"}:
        return True
    if name in flags:
        return True
    if name.startswith("--"):
        return len(name) > 2 and any(flag.startswith(name) for flag in flags)
    letters = {flag[1] for flag in flags if len(flag) == 2}
    return word.startswith("-") and len(word) > 2 and word[1] in letters


def is_final(words: Sequence[str]) -> bool:
    """Deletes, pushes and publishing: asked each time, "always" is not offered."""
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
    """Commands that do what their input says, whatever their own words are: no rule could tell what it allows."""
    return words[0] in {"xargs", "parallel", "eval", "source", "."}
