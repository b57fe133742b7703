"""Places outside the workspace that a sandboxed command may use without a question.

Installed software is published: reading it reveals nothing of the user. `/tmp` inside the workspace sandbox belongs to
the session; the machine's own is not visible there.
"""

from __future__ import annotations

import re

_INSTALLED = re.compile(
    r"/(?:usr|bin|sbin|lib|lib32|lib64|libx32|nix/store|snap)(?:/.*)?"
    r"|/opt(?:/.*)?|/Library/(?:Developer|Frameworks|Java)/.*|/Applications/Xcode\.app/.*|/System/.*"
    r"|/etc/(?:os-release|lsb-release|debian_version|alpine-release|timezone|localtime|alternatives/.*|ld\.so\.conf.*)"
    r"|/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|stat|filesystems)|/dev/(?:null|zero|full|stdin|stdout|stderr|tty)"
    r"|.*/(?:site-packages|dist-packages|node_modules)(?:/.*)?"
    r"|.*/go/pkg(?:/.*)?|.*/\.cargo/registry(?:/.*)?|.*/\.rustup(?:/.*)?|.*/\.m2/repository(?:/.*)?"
    r"|.*/\.(?:pyenv|nvm|rbenv|sdkman|volta|asdf|nodenv|rye|opam|dotnet|deno|bun)(?:/.*)?"
    r"|.*/\.local/(?:lib|share/(?:uv|mise|pnpm|fnm))(?:/.*)?|.*/lib/python3[^/]*(?:/.*)?"
)
_SCRATCH = re.compile(r"(?:/private)?/tmp(?:/.*)?")


def is_installed(path: str) -> bool:
    """Whether a resolved path belongs to installed software, or describes the system."""
    return _INSTALLED.fullmatch(path) is not None


def is_scratch(path: str) -> bool:
    """Whether a resolved path is in /tmp."""
    return _SCRATCH.fullmatch(path) is not None
