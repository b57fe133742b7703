"""Finds keys and tokens in text and masks them before a model or a log sees them.

A secret is recognised by the format that its provider uses, or by a telling name before a random value. Ordinary code,
hashes in lock files and placeholders are not masked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import cast


@dataclass(frozen=True, slots=True)
class Secret:
    """A masked secret: its kind, and its position in the original text."""

    kind: str
    start: int
    end: int


def mask(text: str) -> tuple[str, tuple[Secret, ...]]:
    """Return the text with each secret replaced by a placeholder that names its kind, and the secrets."""
    found = sorted([*_known(text), *_named(text)], key=lambda secret: (secret.start, -secret.end))
    out: list[str] = []
    kept: list[Secret] = []
    at = 0
    for secret in found:
        if secret.start < at:
            continue
        out += [text[at : secret.start], MARK.format(kind=secret.kind)]
        at = secret.end
        kept.append(secret)
    return ("".join((*out, text[at:])), tuple(kept)) if kept else (text, ())


MARK = "[hidden: {kind}]"
_MARKED = re.compile(r"\[hidden: [A-Za-z0-9 ]{2,40}\]")


def has_mark(value: object) -> bool:
    """Whether a nested value contains the placeholder of a secret. Writing it back would destroy the secret."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str) and _MARKED.search(item):
            return True
        if isinstance(item, Mapping):
            waiting += cast("Mapping[object, object]", item).values()
        elif isinstance(item, list | tuple):
            waiting += cast("list[object]", item)
    return False


# ---------------------------------------------------------------- formats of well-known providers

_SHAPES: tuple[tuple[str, str, str], ...] = (
    # kind, substrings of which every such key contains one, regular expression
    ("Anthropic key", "sk-ant-", r"sk-ant-(?:api|admin|sid)[0-9]{2}-[A-Za-z0-9_-]{20,}"),
    ("OpenRouter key", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{48,}"),
    ("OpenAI key", "sk-", r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    ("API key", "sk-", r"sk-(?=[A-Za-z]{0,40}[0-9])(?=[0-9]{0,40}[A-Za-z])[A-Za-z0-9]{32,}"),
    ("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("Stripe webhook key", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}"),
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    ("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{60,255}"),
    (
        "GitLab token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- glagent- glimt- gloas-",
        r"gl(?:pat|dt|rt|ptt|cbt|ft|soat|agent|imt|oas)-[A-Za-z0-9_-]{20,}",
    ),
    ("AWS key id", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("Google API key", "AIza", r"AIza[0-9A-Za-z_-]{35}"),
    ("Google OAuth secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    ("Google OAuth token", "ya29.", r"ya29\.[A-Za-z0-9_-]{30,}"),
    ("Slack token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("Slack token", "xapp-", r"xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{20,}"),
    ("Slack webhook", "hooks.slack.com", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/+_-]{20,}"),
    ("Discord token", "iscord", r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"),
    ("Discord webhook", "/api/webhooks/", r"https://[a-z.]*discord(?:app)?\.com/api/webhooks/[0-9]{16,}/[\w-]{60,}"),
    ("Telegram token", ":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("Hugging Face token", "hf_", r"hf_[A-Za-z]{34,}"),
    ("SendGrid key", "SG.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}"),
    ("Twilio key", "SK", r"SK[0-9a-f]{32}(?![0-9a-f])"),
    ("Mailgun key", "key-", r"key-[0-9a-f]{32}(?![0-9a-f])"),
    ("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("Square token", "sq0atp- sq0csp-", r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}"),
    ("Databricks token", "dapi", r"dapi[0-9a-f]{32}"),
    ("Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}"),
    ("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    ("Doppler token", "dp.", r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9.]{40,}"),
    ("Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    ("xAI key", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    ("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    ("Replicate token", "r8_", r"r8_[A-Za-z0-9]{37}"),
    ("Fly token", "fm1_ fm2_", r"fm[12]_[A-Za-z0-9+/=_-]{60,}"),
    ("Postman key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Sentry token", "sntrys_ sntryu_ sntrus_", r"sntr(?:ys|yu|us)_[A-Za-z0-9+/=_-]{40,}"),
    ("New Relic key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    ("age key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("JSON web token", "eyJ", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
)


@cache
def _shapes() -> tuple[tuple[str, list[str], re.Pattern[str]], ...]:
    return tuple((kind, hints.split(), re.compile(shape)) for kind, hints, shape in _SHAPES)


_INSIDE = re.compile(r"[A-Za-z0-9_-]")
_BEGIN = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?)-----")
MAX_KEY = 20_000  # characters of one private key
_IN_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@'\"<>{}$()]{0,80}:(?P<secret>[^\s:/@'\"<>{}$()*]{4,200})@[A-Za-z0-9.\[-]"
)
_QUERY = re.compile(
    r"[?&](?:[a-z-]{0,20}[_-])?(?:token|key|apikey|secret|sig|signature|passw(?:or)?d|credential|code)="
    r"(?P<secret>[A-Za-z0-9%+/=._~-]{12,400})",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"\b(?:authorization|proxy-authorization)[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+(?P<secret>[A-Za-z0-9+/=._~-]{16,})",
    re.IGNORECASE,
)


def _known(text: str) -> list[Secret]:
    found: list[Secret] = []
    for kind, hints, shape in _shapes():
        if any(hint in text for hint in hints):  # most texts need no regular expression
            found += [
                Secret(kind, *match.span())
                for match in shape.finditer(text)
                if not _INSIDE.match(text, match.start() - 1 if match.start() else len(text))
                and not _placeholder(match.group())
            ]
    if "PRIVATE KEY" in text:
        found += _private_keys(text)
        found += _headless_keys(text)
    found += [Secret("private key", *match.span()) for match in _OPENSSH_BODY.finditer(text)]
    if "://" in text:
        for match in _IN_URL.finditer(text):
            if not _placeholder(match.group("secret")) and not _WORDS.fullmatch(match.group("secret")):
                found.append(Secret("password in an address", *match.span("secret")))
    for match in _QUERY.finditer(text) if "=" in text else ():
        value = match.group("secret")
        if not _placeholder(value) and not _WORDS.fullmatch(value) and _entropy(value) > 2.5:
            found.append(Secret("secret in an address", *match.span("secret")))
    if "uthorization" in text or "UTHORIZATION" in text:
        found += [
            Secret("authorization", *match.span("secret"))
            for match in _HEADER.finditer(text)
            if not _placeholder(match.group("secret"))
        ]
    return found


_WORDS = re.compile(r"passw(?:or)?d|pass|pwd|secret|token|[a-z]{1,6}")
"""Stand-ins for a password in documentation."""


def _private_keys(text: str) -> list[Secret]:
    """Find the bodies of private keys, complete or truncated."""
    found: list[Secret] = []
    begins = list(_BEGIN.finditer(text))
    for at, begin in enumerate(begins):
        limit = begins[at + 1].start() if at + 1 < len(begins) else len(text)
        limit = min(limit, begin.end() + MAX_KEY)
        end = text.find("-----END ", begin.end(), limit)
        end = limit if end < 0 else end
        body = re.sub(r"\s|\\n|\"|'|\+(?=\n)|[A-Z][A-Za-z-]+:[^\n]*", "", text[begin.end() : end])
        if len(body) >= 60 and re.fullmatch(r"[A-Za-z0-9+/=.\\-]+", body[:60]) and _entropy(body[:400]) > 4:
            found.append(Secret("private key", begin.end(), end))
    return found


_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}$")
_OPENSSH_BODY = re.compile(r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s]{40,}")
"""The first bytes of the body of an OpenSSH key. They identify a key without its header line."""


def _headless_keys(text: str) -> list[Secret]:
    """Find private keys without a header: lines that end in base64 before an END line."""
    found: list[Secret] = []
    for end in _END.finditer(text):
        first = last = text.rfind("\n", 0, end.start()) + 1
        while first > max(0, last - MAX_KEY):
            before = text.rfind("\n", 0, first - 1) + 1
            if not _KEY_LINE.search(text[before : first - 1].rstrip("\r")[-200:]):
                break
            first = before
        body = text[first:last]
        if len(body) >= 60 and "-----BEGIN" not in text[max(0, first - 60) : last] and _entropy(body[:400]) > 4:
            found.append(Secret("private key", first, last))
    return found


# ---------------------------------------------------------------- values after a telling name

_VALUE = re.compile(r"[:=]>?[ \t]{0,4}[rbuf]?(?P<quote>[\"'`]?)(?P<secret>[^\s\"'`,;(){}<>\[\]]{8,400})(?P=quote)")
_TELLING = re.compile(
    r"(?P<name>api[_-]?key|(?:secret|access|private|encryption|signing)[_-]?key|secret|token|passw(?:or)?d|passphrase"
    r"|credentials?|_key|_pass|_pwd)[\"']?(?P<gap>[ \t]{0,4}):?$",
    re.IGNORECASE,
)
_NAMES = ("key", "secret", "token", "passw", "passphrase", "credential", "_pass", "_pwd")
_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3,}|<|>|\$\{|\$\(|%\(|\{\{|your|example|placeholder|changeme|change_me|dummy|sample|redacted|insert"
    r"|replace|hidden|abc123|123456|abcdef|0{6,}|foobar|qwerty|secret_?here|todo|fake|mock|deadbeef|none|null|undefined"
    r"|test[_-]?(?:key|token|secret|pass)",
    re.IGNORECASE,
)


def _named(text: str) -> list[Secret]:
    lower = text.lower()
    if not any(name in lower for name in _NAMES):
        return []
    found: list[Secret] = []
    at = 0
    while match := _VALUE.search(text, at):
        name = _TELLING.search(text[max(0, match.start() - 40) : match.start()])
        if name is None:
            at = match.start() + 1  # in `file:NAME=value` the first apparent value contains a name and a value
            continue
        at = match.end()
        value, quoted = match.group("secret"), bool(match.group("quote"))
        # NAME=value, as in an environment file.
        loud = name["name"].isupper() and not name["gap"] and text[match.start() + 1 : match.start() + 2] not in " \t"
        if _looks_random(value, quoted=quoted, loud=loud):
            found.append(Secret("secret", *match.span("secret")))
    return found


def _looks_random(value: str, *, quoted: bool, loud: bool) -> bool:
    """Whether a value after a telling name is a secret instead of code, a word or a placeholder."""
    if _placeholder(value):
        return False
    kinds = sum(bool(re.search(kind, value)) for kind in (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9]"))
    if loud and (quoted or re.fullmatch(r"[A-Za-z0-9+/=_.~!@#$%^&*-]+", value)):
        # In an environment file every long or mixed value is probably a secret.
        return (len(value) >= 12 and kinds >= 2 and _entropy(value) >= 3) or (len(value) >= 8 and kinds >= 3)
    if not quoted and not re.fullmatch(r"[A-Za-z0-9+/=_-]{20,}", value):
        return False
    if _NAME_LIKE.fullmatch(value) or _UUID.fullmatch(value) or re.search(r"\\|//|^/|^\.|%[sd]", value):
        return False
    long = len(value) >= (24 if re.fullmatch(r"[0-9a-fA-F]+", value) else 16)
    return long and sum(map(str.isdigit, value)) >= 2 and kinds >= 2 and _entropy(value) >= 3.5


_NAME_LIKE = re.compile(r"[A-Za-z_]+[0-9]{0,2}[A-Za-z_]*(?:[._/:-][A-Za-z_]*[0-9]{0,2}[A-Za-z_]*)*")
"""Words, possibly with a number, joined as in the name of a setting."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _placeholder(value: str) -> bool:
    return _PLACEHOLDER.search(value) is not None or len(set(value)) <= 4


def _entropy(text: str) -> float:
    """Return the entropy in bits per character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
