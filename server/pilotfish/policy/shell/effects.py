"""Classifies a command by what it is usually run for: to read, to run the workspace's code, to change files, and so on.

The class decides in which sandbox a command runs without a question, and about which commands the user is asked. It
proves nothing: the sandbox enforces what the class promises. A command that is classified too low fails in its sandbox,
and the model can then ask the user for what was missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from pilotfish.policy.shell.arguments import Read
from pilotfish.policy.shell.git_effects import git_effect
from pilotfish.policy.shell.read_only_commands import EXACT, SPECIAL, TABLE, read_only
from pilotfish.policy.unsafe_arguments import breaks_out, known_prefix


class Effect(IntEnum):
    """What a command does, from harmless to harmful. The effect of a line is that of its most harmful command."""

    READS = 0
    """It reads or computes."""
    RUNS = 1
    """It runs code of the workspace that usually writes nothing: tests, linters, inline scripts."""
    CHANGES = 2
    """It changes files. Every program that is not known counts as such."""
    NETWORK = 3
    """It needs the network, or another service of this machine."""
    HIDDEN = 4
    """What it runs is not in the line."""
    DELETES = 5
    """It deletes files that are named one by one."""
    DESTROYS = 6
    """It deletes, overwrites or publishes something in a way that cannot be taken back."""


class Finding(NamedTuple):
    effect: Effect
    reason: str = ""
    """For the user: why a command with this effect is asked about. Empty if it only reads."""
    deletes: tuple[str, ...] = ()
    """What exactly it deletes, as written. Deleting in the sandbox's own /tmp is harmless."""
    here: bool = False
    """What it runs depends on the directory: the scripts of a package."""


READS = Finding(Effect.READS)


def effect_of(words: Sequence[str], located: str = "") -> Finding:
    """Return the effect of one simple command. `located` is the directory in which its program is named."""
    finding = _effect(words[0], list(words[1:]))
    if not located or located.startswith(SYSTEM_FOLDERS):
        return finding
    installed = OWN_PROGRAMS.search(located) is not None
    own = Finding(Effect.RUNS if installed else Effect.CHANGES, f"it runs {located}, a program of its own")
    return worst((finding, own))


def worst(findings: Sequence[Finding]) -> Finding:
    return max(findings, key=lambda finding: finding.effect, default=READS)


OWN_PROGRAMS = re.compile(r"(?:^|/)(?:\.?venv/bin|node_modules/\.bin|vendor/bin)/[^/]+$")
"""Programs that a package manager installed in the workspace."""
SYSTEM_FOLDERS = ("/usr/", "/bin", "/sbin", "/opt/homebrew/bin", "/opt/local/bin", "/nix/store/")

WRAPPERS = frozenset({
    "env", "timeout", "gtimeout", "nice", "ionice", "stdbuf", "time", "command", "builtin", "xargs", "!", "{", "then",
    "do", "else", "if", "while", "until", "elif", "for", "case", "in", "fi", "done", "esac", "[[", "unbuffer", "npx",
    "bunx", "exec", "nohup", "setsid", "uvx",
})  # fmt: skip
"""They run another command, which is classified separately."""
READERS = frozenset({
    ":", "set", "export", "local", "declare", "typeset", "readonly", "read", "shift", "unset", "break", "continue",
    "exit", "return", "wait", "shopt", "let", "trap", "umask", "ulimit", "jobs", "pushd", "popd", "dirs", "getopts",
    "gawk", "mawk", "yq", "bat", "less", "more", "zcat", "zgrep", "bzcat", "xzcat", "unzip", "ag",
    "ack", "tokei", "cloc", "scc", "objdump", "nm", "readelf", "ldd", "size", "diffstat", "look", "join", "tsort",
    "factor", "numfmt", "fmt", "pr", "shuf", "expr", "bc", "dc", "cal", "printenv", "lsof", "whereis", "eza",
    "exa", "fdfind", "sum", "colordiff", "delta", "icdiff", "xmllint", "plutil", "tput", "getent", "mdfind",
    "egrep", "fgrep", "strings", "xxd", "otool", "man", "info", "apropos", "whatis", "locate", "mdls", "identify",
    "ffprobe", "pdftotext", "exiftool", "jo", "gron", "htmlq", "mlr", "csvlook", "csvstat", "xsv", "netstat",
    "ifconfig", "vmstat", "iostat", "top", "w", "who", "last", "system_profiler", "lsb_release", "dpkg-query",
    "rpm", "port", "lsblk", "findmnt", "iconv", "envsubst", "msgfmt", "tldr", "shellcheck", "hadolint", "actionlint",
    "yamllint", "jsonlint", "markdownlint", "nohup", "uuidgen", "openssl", "zipinfo", "ar", "vim-profiler", "ps2ascii",
})  # fmt: skip
"""They read or only compute, and are not in the table of `read_only_commands.py`."""
WRITING_FLAGS: dict[str, str] = {
    "sed": r"-[a-zA-Z]*i.*|--in-pl.*",
    "sort": r"-[a-zA-Z]*o.*|--outp.*|--comp.*",
    "find": r"-fprint0?|-fprintf|-fls|-ok|-okdir",
    "tree": r"-[a-zA-Z]*o.*",
    "tail": r"-[a-zA-Z]*[fF].*|--fol.*|--retry",
    "rg": r"--pre.*|--hostname.*",
    "yq": r"-[a-zA-Z]*i.*|--inplace",
    "awk": r"-i",
    "gawk": r"-i",
    "xxd": r"-r.*",
    "unzip": r"(?!-[a-z]*[lpvZ]).*",
    "openssl": r"(?!version|x509|dgst|rand|s_client).*",
    "ar": r"(?!-?[ptv]).*",
    "rpm": r"(?!-q).*",
    "port": r"(?!list|search|info|installed).*",
    "trap": r".*[;&|].*",
    "man": r"-P.*|-H.*|--pag.*|--html.*",
}
"""Arguments with which these programs write, wait or run another program."""
FIRST_ONLY = frozenset({"unzip", "openssl", "ar", "rpm", "port"})
"""Of these only the first argument counts."""
STRICT = frozenset({"date", "hostname", "uniq", "base64"})
"""They count as readers only with the arguments of the table: with others they write or change settings."""

NETWORK = frozenset({
    "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "telnet", "ftp", "ping", "dig", "nslookup",
    "host", "traceroute", "whois", "gh", "glab", "hub", "aws", "gcloud", "gsutil", "az", "doctl", "flyctl", "fly",
    "heroku", "vercel", "netlify", "wrangler", "firebase", "supabase", "terraform", "tofu", "pulumi", "ansible",
    "ansible-playbook", "http", "https", "xh", "httpie", "brew", "apt", "apt-get", "apt-cache", "aptitude", "dnf",
    "yum", "apk", "pacman", "zypper", "snap", "flatpak", "choco", "winget", "conda", "mamba", "micromamba", "pipx",
    "psql", "mysql", "mariadb", "mongo", "mongosh", "redis-cli", "cqlsh", "huggingface-cli", "hf", "ollama", "claude",
    "codex", "gemini", "git-lfs", "twine", "websocat", "grpcurl", "ab", "hey", "wrk", "newman", "aria2c", "lynx",
    "links", "w3m", "socat", "lftp", "rclone", "mosh", "kubectl", "helm", "mail", "sendmail", "mutt", "yt-dlp", "svn",
    "hg",
})  # fmt: skip
SERVICES = frozenset({
    "docker", "docker-compose", "podman", "nerdctl", "minikube", "kind", "systemctl", "service",
    "launchctl", "journalctl", "osascript", "open", "xdg-open", "code", "cursor", "crontab", "at", "sudo", "doas", "su",
    "tmux", "screen", "defaults", "xcrun", "adb", "notify-send", "say", "pbcopy",
})  # fmt: skip
"""They control something outside the sandbox: containers, services, windows. `kill` is not one of them: in a sandbox it
sees only its own processes."""
FETCHING: dict[str, str] = {
    "npm": r"i|in|install|add|ci|update|up|upgrade|audit|outdated|view|info|show|search|login|whoami|create|init|exec|x"
    r"|pack|link|dedupe|fund|ping|owner|access|token|dist-tag|rebuild",
    "pnpm": r"i|install|add|update|up|audit|outdated|view|create|dlx|exec|fetch|import|store",
    "yarn": r"install|add|upgrade|up|audit|outdated|info|create|dlx|npm|set",
    "bun": r"install|i|add|update|create|x|upgrade|pm",
    "pip": r"install|download|wheel|index|search",
    "uv": r"add|sync|lock|tool|pip|python|remove|init|venv|self|publish",
    "poetry": r"add|install|update|lock|publish|self|search|source",
    "pdm": r"add|install|update|lock|sync|publish",
    "pipenv": r"install|update|sync|lock",
    "cargo": r"add|install|update|publish|search|fetch|login|yank|owner|generate-lockfile",
    "rustup": r"update|install|toolchain|target|component|self",
    "go": r"get|install|mod|work",
    "gem": r"install|update|fetch|push|search",
    "bundle": r"install|update|add|outdated",
    "composer": r"install|update|require|create-project|global",
    "dotnet": r"restore|add|tool|nuget|new|workload",
    "nvm": r"install|ls-remote",
    "playwright": r"install.*",
    "deno": r"install|cache|add|upgrade",
    "mix": r"deps\.get|deps\.update|local\.hex|archive\.install",
    "flutter": r"pub|upgrade|precache|doctor",
    "swift": r"package",
    "pod": r"install|update",
}
"""The subcommands of package managers that fetch something."""
FINAL_WORDS = re.compile(r"publish|unpublish|yank|push|deprecate|deploy|release|upload|delete|destroy|merge|prune|rm")
"""Words with which a program changes something on a server, or deletes it there."""

RUNNING: dict[str, str] = {
    "npm": r"(?:run |run-script )?(?:test|lint|typecheck|type-check|check|tsc|validate|verify)\S*( .*)?|t( .*)?",
    "pnpm": r"(?:-\S+ )*(?:run )?(?:test|lint|typecheck|type-check|check|tsc)\S*( .*)?",
    "yarn": r"(?:run )?(?:test|lint|typecheck|type-check|check|tsc)\S*( .*)?",
    "bun": r"(?:run )?(?:test|lint|typecheck|check)\S*( .*)?|-e .*",
    "pytest": r".*",
    "py.test": r".*",
    "unittest": r".*",
    "tox": r"",
    "tsc": r".*--noEmit.*|-v|--version|--showConfig.*",
    "vue-tsc": r".*--noEmit.*",
    "eslint": r"(?!.*--fix).*",
    "prettier": r"(?!.*(?:--write|-w\b)).*",
    "biome": r"(?:check|lint|ci)(?!.*--(?:write|apply|fix)).*",
    "oxlint": r"(?!.*--fix).*",
    "stylelint": r"(?!.*--fix).*",
    "jest": r"(?!.*-u\b)(?!.*--watch).*",
    "vitest": r"run(?!.*-u\b).*|.*--run.*",
    "mocha": r".*",
    "ava": r".*",
    "ruff": r"check(?!.*--fix).*|format .*--(?:check|diff).*|rule .*",
    "black": r".*--(?:check|diff).*",
    "isort": r".*--(?:check|diff|check-only).*",
    "flake8": r".*",
    "pylint": r".*",
    "pyflakes": r".*",
    "mypy": r".*",
    "pyright": r".*",
    "basedpyright": r".*",
    "ty": r"check.*",
    "bandit": r".*",
    "go": r"test(?! .*-(?:o|cpuprofile|memprofile|coverprofile)\b).*|vet.*|build(?: -\S+)* \./\.\.\.|run .*"
    r"|build -o /dev/null.*",
    "golangci-lint": r"run(?!.*--fix).*|linters.*",
    "staticcheck": r".*",
    "gofmt": r"(?!.*-w\b).*",
    "goimports": r"(?!.*-w\b).*",
    "cargo": r"fmt .*--check.*",
    "rustfmt": r".*--check.*",
    "rspec": r".*",
    "rubocop": r"(?!.*-[aA]\b)(?!.*--auto).*",
    "phpunit": r".*",
    "phpstan": r".*",
    "php": r".*",
    "ruby": r".*",
    "perl": r"(?!-\S*i).*",
    "node": r".*",
    "deno": r"(?:test|check|lint|eval|info).*",
    "tsx": r".*",
    "ts-node": r".*",
    "lua": r".*",
    "python": r".*",
    "sqlite3": r".*",
    "duckdb": r".*",
    "javap": r".*",
    "kotlinc": r"-version",
    "source": r"\S+",
    ".": r"\S+",
}
"""With these arguments the programs run code of the workspace that usually writes nothing."""
READING: dict[str, str] = {
    "npm": r"(?:ls|list|ll|root|prefix|bin|explain|why|query|config (?:get|list|ls)|pkg get|help)( .*)?|run|run-script",
    "pnpm": r"(?:ls|list|why|root|bin)( .*)?",
    "yarn": r"(?:list|why|workspaces|config)( .*)?",
    "bun": r"pm ls.*",
    "pip": r"(?:list|show|freeze|check|debug|config list|inspect|cache dir)( .*)?",
    "uv": r"(?:pip (?:list|show|freeze|check|tree)|tree|python (?:list|find|dir)|cache dir|tool list)( .*)?",
    "poetry": r"(?:show|env (?:info|list)|check|config --list|about)( .*)?",
    "go": r"(?:list|env(?! -w)|version|doc|help|mod (?:graph|why|verify)|tool(?! -))( .*)?",
    "cargo": r"(?:--list|help|pkgid|verify-project|read-manifest|tree|metadata|locate-project)( .*)?",
    "rustup": r"(?:show|which|toolchain list|target list|component list)( .*)?",
    "gem": r"(?:list|environment|contents|which)( .*)?",
    "bundle": r"(?:list|show|info|check|config)( .*)?",
    "make": r".*(?:-n|--dry-run|--just-print|-p|-qp)\b.*",
    "bash": r"-n \S+",
    "sh": r"-n \S+",
    "zsh": r"-n \S+",
    "python": r"-m (?:json\.tool|site|sysconfig|tokenize|ast|dis|pip (?:list|show|freeze))( .*)?|-V+|--version",
    "sqlite3": r"(?:-\S+ )*\S+ (?:\.(?:tables|schema|dump|indexes|databases|mode)|(?i:select|pragma|explain|with)\b).*",
    "brew": r"(?:list|info|--prefix|ls|config|--version)( .*)?",
    "dpkg": r"-[lLsS]( .*)?|--list.*",
    "nvm": r"(?:ls|list|current|which|version)( .*)?",
    "tar": r"-?[a-z]*t[a-z]* .*",
    "zip": r"-sf .*",
    "tmux": r"(?:ls|list-\S+)( .*)?",
    "crontab": r"-l",
    "git-lfs": r"ls-files.*",
    "jest": r"--listTests.*|--showConfig.*",
    "pre-commit": r"--version",
    "javac": r"-version",
    "mvn": r"(?:-v|--version)",
    "gradle": r"(?:-v|--version|tasks|projects|properties)( .*)?",
    "dotnet": r"(?:--info|--list-\S+|list)( .*)?",
    "xcodebuild": r"-(?:list|version|showsdks).*",
    "code": r"(?:--version|--list-extensions).*",
}
"""With these arguments the programs only report something."""
ASKS_VERSION = re.compile(r"--version|-V|-version|version|--help|-h|help|\S+ --help")

BUILD_OUTPUTS = re.compile(
    r"(?:.*/)?(?:node_modules|dist|build|out|target|coverage|htmlcov|tmp|temp|__pycache__|\.pytest_cache|\.mypy_cache"
    r"|\.ruff_cache|\.next|\.nuxt|\.turbo|\.cache|\.parcel-cache|\.eggs|[^/*]*\.egg-info|\.tox|\.nyc_output|\.coverage"
    r"|[^/]*\.(?:pyc|pyo|o|class|log|tmp|tsbuildinfo))/?(?:\*)?"
)
"""What builds make again: deleting it loses nothing."""
UNKNOWN_NAME = re.compile(r"[$`*?]|^\{")
DELETING_CODE = re.compile(
    r"rmtree|os\.(?:remove|unlink|rmdir|removedirs)|\.unlink\(|rmSync|unlinkSync|rmdirSync|fs\.(?:rm|unlink|rmdir)\b"
    r"|FileUtils\.rm|File\.delete|remove_dir_all|remove_file|\bunlink\b|shutil\.move|git push|reset --hard"
)


def _effect(name: str, rest: list[str]) -> Finding:
    text = " ".join(rest)
    if UNKNOWN_NAME.search(name):
        return Finding(Effect.HIDDEN, "the name of the program is not known before it runs")
    if (name, *rest) in EXACT or (ASKS_VERSION.fullmatch(text) and name not in SERVICES):
        return READS
    if name == "git":
        effect, reason = git_effect(rest, _is_strict(("git", *rest)))
        return Finding(Effect[effect], reason)
    if (special := _SPECIAL.get(name)) is not None:
        return special(name, rest)
    base = re.sub(r"[0-9.]+$", "", name) if name.startswith(("python", "pip", "pypy")) else name
    if base == "python" and rest[:1] == ["-m"] and len(rest) > 1 and not _matches(READING, base, text):
        if rest[1] in {"http.server", "venv", "virtualenv", "build", "ensurepip", "compileall"}:
            return Finding(Effect.CHANGES, f"python -m {rest[1]} changes files or waits")
        return _effect(rest[1], rest[2:]) if rest[1] in RUNNING or rest[1] in FETCHING else _runs(name)
    if _matches(READING, base, text):
        return READS
    if base in {"uv", "poetry", "pdm", "pipenv", "bundle", "hatch", "rye"} and rest[:1] in (["run"], ["exec"]):
        inner = [word for word in rest[1:] if not word.startswith("-")] if rest[1:2] != ["--"] else rest[2:]
        return _effect(inner[0], inner[1:]) if inner else Finding(Effect.CHANGES, f"{name} may change files")
    if _matches(RUNNING, base, text):
        if DELETING_CODE.search(text):
            return Finding(Effect.DELETES, "its code deletes or publishes something")
        prefix = known_prefix((name, *rest))
        return _changes(name) if prefix and breaks_out((name, *rest), len(prefix)) else _runs(name)
    if (base in FETCHING or base in NETWORK or base in SERVICES) and any(map(FINAL_WORDS.fullmatch, rest[:3])):
        return Finding(Effect.DESTROYS, f"{name} {text[:40]} changes something that others use")
    if base in FETCHING and re.fullmatch(FETCHING[base], _subcommand(rest)):
        return Finding(Effect.NETWORK, f"{name} {_subcommand(rest)} needs the network")
    if base in NETWORK:
        return Finding(Effect.NETWORK, f"{name} needs the network")
    if base in SERVICES:
        return Finding(Effect.NETWORK, f"{name} controls something outside the sandbox")
    if name in STRICT:
        return READS if _is_strict((name, *rest)) else _changes(name)
    if name in WRAPPERS or name in READERS or name in TABLE or name in SPECIAL:
        pattern = WRITING_FLAGS.get(name)
        looked = rest[:1] if name in FIRST_ONLY else rest
        if pattern is None or not any(re.fullmatch(pattern, word) for word in looked):
            return READS
    return _changes(name)


def runs_its_input(words: Sequence[str]) -> bool:
    """Whether an interpreter gets its program from standard input."""
    return re.fullmatch(r"python[0-9.]*|node|ruby|perl|php|deno|bun", words[0]) is not None and set(words[1:]) <= {"-"}


def _changes(name: str) -> Finding:
    return Finding(Effect.CHANGES, f"{name} may change files")


def _runs(name: str) -> Finding:
    here = name in {"npm", "pnpm", "yarn", "bun"}
    return Finding(Effect.RUNS, f"{name} runs code of this workspace", here=here)


def _matches(table: dict[str, str], name: str, text: str) -> bool:
    return name in table and re.fullmatch(table[name], text, re.DOTALL) is not None


def _subcommand(rest: Sequence[str]) -> str:
    return next((word for word in rest if not word.startswith("-")), "")


def runs_no_code(words: Sequence[str]) -> bool:
    """Whether a command that reads is known to run no program that is not in the line: no script, plugin or setting of
    the folder. What it wraps is looked at by itself."""
    name, rest = words[0], list(words[1:])
    if name in WRAPPERS or name in CANNOT_RUN or (name in SHELLS and rest[:1] == ["-c"]):
        return True
    globs = rest
    if name == "find":
        rest = rest[: next((at for at, word in enumerate(rest) if word in {"-exec", "-execdir"}), len(rest))]
        globs = rest[: next((at for at, word in enumerate(rest) if word.startswith("-")), len(rest))]
    if any("$" in word or "`" in word for word in rest) or any(word[:1] in {*"*?[{"} for word in globs):
        return False  # what the shell puts there may be an option
    return _is_strict((name, *rest))


SHELLS = frozenset({"bash", "sh", "dash", "zsh"})
CANNOT_RUN = frozenset({
    "cd", "pushd", "popd", ":", "set", "shift", "read", "exit", "return", "break", "continue", "true", "false", "test",
    "[", "echo", "printf", "pwd", "cat", "wc", "head", "tail", "ls", "basename", "dirname", "grep", "cut", "tr", "nl",
    "stat", "done", "fi", "esac", "}",
})  # fmt: skip
"""They run no other program, whatever their arguments are."""


def _is_strict(words: Sequence[str]) -> bool:
    return isinstance(read_only(words), Read)


def _rm(name: str, rest: list[str]) -> Finding:
    operands = [word for word in rest if not word.startswith("-")]
    flags = "".join(word for word in rest if word.startswith("-"))
    if operands and all(BUILD_OUTPUTS.fullmatch(word) and ".." not in word for word in operands):
        return Finding(Effect.CHANGES, f"{name} deletes what a build made")
    named = operands and not any(re.search(r"[*?$`{\[]|^\.{1,2}/?$", word) for word in operands)
    if named and "r" not in flags.lower():
        return Finding(Effect.DELETES, f"it deletes {', '.join(operands[:3])}", tuple(operands))
    what = ", ".join(operands[:3]) or "the files that its input names"
    reason = f"it deletes {what} with everything in it" if named else f"it deletes {what}"
    return Finding(Effect.DESTROYS, reason, tuple(operands))


def _shell(name: str, rest: list[str]) -> Finding:
    if _matches(READING, name, " ".join(rest)):
        return READS
    if len(rest) >= 2 and re.fullmatch(r"-[a-z]*c", rest[0]):
        return READS  # the commands in the text are classified separately
    operands = [word for word in rest if not word.startswith("-")]
    if not operands:
        return Finding(Effect.HIDDEN, f"{name} runs whatever its input says")
    if UNKNOWN_NAME.search(operands[0]) or operands[0].startswith(("<", "/dev/")):
        return Finding(Effect.HIDDEN, f"the script that {name} runs is not known before it runs")
    return Finding(Effect.CHANGES, f"it runs the script {operands[0]}")


def _hidden(name: str, rest: list[str]) -> Finding:
    del rest
    return Finding(Effect.HIDDEN, f"what {name} runs is put together while it runs")


def _source(name: str, rest: list[str]) -> Finding:
    if len(rest) >= 1 and not UNKNOWN_NAME.search(rest[0]) and not rest[0].startswith(("<", "/dev/")):
        return Finding(Effect.RUNS, f"it runs {rest[0]} in the shell")
    return _hidden(name, rest)


def _overwrites(name: str, rest: list[str]) -> Finding:
    del rest
    return Finding(Effect.DESTROYS, f"{name} overwrites what it is given")


def _sleep(name: str, rest: list[str]) -> Finding:
    short = len(rest) == 1 and re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]+)?s?", rest[0]) is not None
    return READS if short else Finding(Effect.CHANGES, f"{name} waits for a long time")


def _find(name: str, rest: list[str]) -> Finding:
    if "-delete" in rest:
        return Finding(Effect.DESTROYS, "find -delete deletes every file that it finds")
    if any(re.fullmatch(WRITING_FLAGS["find"], word) for word in rest):
        return _changes(name)
    return READS


_SPECIAL: dict[str, Callable[[str, list[str]], Finding]] = {
    "rm": _rm, "rmdir": _rm, "unlink": _rm, "trash": _rm, "srm": _overwrites, "shred": _overwrites,
    "truncate": _overwrites, "dd": _overwrites, "mkfs": _overwrites, "dropdb": _overwrites,
    "bash": _shell, "sh": _shell, "dash": _shell, "zsh": _shell, "ksh": _shell, "fish": _shell, "rbash": _shell,
    "eval": _hidden, "parallel": _hidden, "watch": _hidden, "source": _source, ".": _source, "find": _find,
    "sleep": _sleep,
}  # fmt: skip
