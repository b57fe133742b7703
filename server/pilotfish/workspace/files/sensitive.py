"""Decides which files are sensitive, with the reason in a few words.

There are two kinds: files that reveal a secret when they are read, and files that have an effect when they are changed
(the shell, the editor, git or a build server runs them, or they instruct agents).
Names are compared without case, invisible characters and trailing dots, as some file systems do.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sensitivity:
    why: str
    secret: bool
    """reading it reveals a secret"""


def mark_of(paths: Iterable[Path | str], home: Path) -> Sensitivity | None:
    """The most severe mark of a file with these names."""
    return _mark_of(tuple(map(str, paths)), str(home))


def may_name_secret(name: str) -> bool:
    """Whether something of this name can be secret in a folder that is not secret itself. Where it lies decides: ask
    `mark_of` then, which takes much longer."""
    return _secret_names().match(_plain_name(name)) is not None


def hard_link_mark(path: str, root: Path | None, home: Path) -> Sensitivity | None:
    """The mark of a secret file that `path` is a hard link to.

    The secret files that are compared: the usual ones of the home, and those in the folders from `path` up to `root`
    (without a root, in the folder of `path`). Only a file that has more than one link costs more than one `stat`.
    """
    try:
        file = os.stat(path)  # noqa: PTH116 - every call of a tool comes here several times
    except (OSError, ValueError):
        return None
    if file.st_nlink < 2 or not stat.S_ISREG(file.st_mode):
        return None
    if any(os.path.samestat(file, secret) for secret in secrets_at_home(home)):
        return Sensitivity("hard link to a key or password file", secret=True)
    folder = Path(path).parent
    for place in (folder, *folder.parents):
        names: list[str] = []
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            names += [entry.path for entry in entries if entry.inode() == file.st_ino]
        if (mark := mark_of(names, home)) is not None and mark.secret:
            return mark
        if root is None or place == root:
            break
    return None


def secrets_at_home(home: Path) -> list[os.stat_result]:
    """The user's best-known secret files. A hard link to one may be in the workspace."""
    found: list[os.stat_result] = []
    for folder in _KEY_FOLDERS_AT_HOME:
        with contextlib.suppress(OSError), os.scandir(home / folder) as entries:
            found += [entry.stat(follow_symlinks=False) for entry in entries]
    for name in _KEY_FILES_AT_HOME:
        with contextlib.suppress(OSError):
            found.append((home / name).lstat())
    return found


_KEY_FOLDERS_AT_HOME = (
    ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud", ".config/rclone",
)  # fmt: skip
_KEY_FILES_AT_HOME = (".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".vault-token")


@lru_cache(maxsize=512)  # depends only on names, and a turn uses the same few files repeatedly
def _mark_of(paths: tuple[str, ...], home: str) -> Sensitivity | None:
    found: Sensitivity | None = None
    house = _plain(home)
    for path in paths:
        name = _plain(path)
        at_home = name[len(house) :] if name.startswith(f"{house}/") else None
        for mark, pattern, only_home in _table():
            subject = at_home if only_home else name
            if subject is not None and pattern.search(subject) and not _PUBLIC.search(name):
                if mark.secret:
                    return mark
                found = found or mark
    return found


def _plain(path: str) -> str:
    return "/".join(_plain_name(part) for part in Path(path).parts)


def _plain_name(name: str) -> str:
    if name.isascii():
        plain = name
    else:
        signs = unicodedata.normalize("NFKC", name)
        plain = "".join(sign for sign in signs if unicodedata.category(sign) not in ("Cf", "Mn", "Me"))
    return plain.casefold().partition(":")[0].rstrip(". ") or name


def _pattern(globs: str) -> re.Pattern[str]:
    """`*` is within a name, `x/**` is x and all below it; a pattern may begin at any directory."""
    return re.compile(f"(?:^|/)(?:{'|'.join(map(_expression, globs.split()))})$")


def _expression(glob: str) -> str:
    escaped = re.escape(glob).replace(r"/\*\*", "(?:/.*)?").replace(r"\*", "[^/]*")
    return re.sub(r"\\\{(.*?)\\\}", lambda match: f"(?:{match[1].replace(',', '|')})", escaped)


_DATA = "{json,yaml,yml,toml,ini,xml,txt,csv,env,properties,conf,cfg,enc,plist}"
_TELLS_SECRETS = {
    "environment file, often with secrets": ".env* *.env",
    "private key": """
        id_{rsa,dsa,ecdsa,ed25519}* *.{pem,key,ppk,p12,pfx,p8,jks,keystore,kdb,kdbx,gpg,asc,age,ovpn}
        age.key sops-key.txt""",
    "key store": ".ssh/** .gnupg/** .password-store/**",
    "cloud credentials": """
        .aws/** .azure/** .kube/** .oci/** gcloud/** *service{-,_,}account*.json *firebase-adminsdk*.json
        application_default_credentials.json kubeconfig{,.yaml,.yml} *.kubeconfig gha-creds-*.json""",
    "credentials": f"""
        {{credentials,credential,.credentials,.secrets}} {{credentials,credential,secrets,secret}}.{_DATA}
        .git-credentials .netrc _netrc .pgpass .my.cnf .npmrc .yarnrc .yarnrc.yml .pypirc .htpasswd .vault-token
        .vault_token .terraformrc .dockercfg .docker/config.json gh/hosts.yml .s3cfg .boto auth.json token.json
        client_secret*.json .cargo/credentials* .git/config .gitconfig .secrets.{{toml,yaml,yml,json}} rclone.conf
        appsettings.*.json local.settings.json .pgpass.conf .msmtprc .mailrc .dockerconfigjson .sentryclirc
        wp-config.php .rubygems/credentials .gem/credentials terraform.rc .config/gh/hosts.yml hub.yml""",
    "infrastructure state with secrets": "*.tfstate *.tfstate.* *.tfvars *.tfvars.json",
}
_DOES_SOMETHING = {
    "git internals": ".git/** git~1/** .gitmodules .gitattributes",
    "runs on commit": """
        .husky/** .githooks/** .pre-commit-config.{yaml,yml} lefthook.{yaml,yml} .lefthook/**""",
    "shell start-up file": """
        .{bash,zsh,ksh,csh,tcsh}rc .bash_{profile,login,logout,aliases} .profile .login .zshenv .zprofile .zlogin
        .zlogout .xprofile .xinitrc .xsessionrc .inputrc fish/config.fish fish/conf.d/** fish/functions/**
        *profile.ps1""",
    "editor settings": """
        .vscode/** .idea/** .zed/** .fleet/** .helix/** .devcontainer/** .devcontainer.json *.code-workspace .exrc
        .vimrc .nvimrc .nvim.lua .dir-locals.el *.sublime-{project,workspace}""",
    "instructs agents": """
        {agents,agent,claude,gemini,copilot-instructions,skill}{,.local,.override}.md .mcp.json mcp.json
        .{pilotfish,claude,agents,cursor,codex,gemini,continue,roo,kiro,windsurf,aider,goose}/** .pilotfishignore
        .{cursorrules,windsurfrules,clinerules,goosehints}/** .github/{instructions,prompts,agents}/**""",
    "runs by itself later": """
        .venv/** node_modules/.bin/** *.pth sitecustomize.py usercustomize.py .cargo/config{,.toml} gradlew{,.bat}
        .mvn/** mvnw{,.cmd} .gdbinit .lldbinit .envrc .npmrc .yarn/** .pnp.{cjs,js} .pnpmfile.cjs""",
    "runs on a build server": """
        .github/{workflows,actions}/** .gitlab-ci.yml .gitlab/ci/** .circleci/** .buildkite/** .travis.yml
        {azure,bitbucket}-pipelines.{yml,yaml} jenkinsfile* .drone.yml .ci/** .woodpecker/** .woodpecker.{yml,yaml}
        {.,}appveyor.yml .teamcity/** .cirrus.yml""",
}
_TELLS_SECRETS_AT_HOME = {
    "keys and passwords of programs": """
        library/keychains/** .local/share/keyrings/** .mozilla/** .thunderbird/** .config/hub
        .config/{google-chrome,chromium,bravesoftware,gh,op}/**""",
    "history of commands": ".*_history .histfile .lesshst",
}
_DOES_SOMETHING_AT_HOME = {
    "starts with the session": """
        library/launchagents/** .config/{autostart,systemd}/** .local/share/systemd/**""",
    "settings of other programs": """
        .config/** library/preferences/** library/application*support/** appdata/** .local/bin/** bin/**""",
}


def _rows(table: dict[str, str], *, secret: bool, home: bool) -> list[tuple[Sensitivity, re.Pattern[str], bool]]:
    return [(Sensitivity(why, secret), _pattern(globs), home) for why, globs in table.items()]


@cache  # built for the first file, not at start-up
def _table() -> tuple[tuple[Sensitivity, re.Pattern[str], bool], ...]:
    return (
        *_rows(_TELLS_SECRETS, secret=True, home=False),
        *_rows(_TELLS_SECRETS_AT_HOME, secret=True, home=True),
        *_rows(_DOES_SOMETHING, secret=False, home=False),
        *_rows(_DOES_SOMETHING_AT_HOME, secret=False, home=True),
    )


@cache
def _secret_names() -> re.Pattern[str]:
    """The last names of the patterns of secrets."""
    globs = " ".join((*_TELLS_SECRETS.values(), *_TELLS_SECRETS_AT_HOME.values())).split()
    names = dict.fromkeys(_expression(glob.removesuffix("/**").rpartition("/")[2]) for glob in globs)
    return re.compile(f"(?:{'|'.join(names)})$")


_PUBLIC = re.compile(r"(?:^|/)[^/]*\.pub$")
"""the public half of a key pair"""
