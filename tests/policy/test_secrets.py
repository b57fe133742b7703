"""Secrets are masked, ordinary code is not."""

from __future__ import annotations

import random
import string
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tries import tries

from pilotfish.policy.secrets import Secret, has_mark, mask

ALPHABET = string.ascii_letters + string.digits


def made(length: int, alphabet: str = ALPHABET, seed: int = 1) -> str:
    """Return random text that is not a real key."""
    return "".join(random.Random(f"{seed} {length} {alphabet}").choices(alphabet, k=length))


HEX = "0123456789abcdef"
KEYS = {
    "Anthropic key": f"sk-ant-api03-{made(90)}",
    "OpenRouter key": f"sk-or-v1-{made(64, HEX)}",
    "OpenAI key": f"sk-proj-{made(100)}",
    "API key": f"sk-{made(48)}",
    "Stripe key": f"sk_live_{made(24)}",
    "GitHub token": f"ghp_{made(36)}",
    "GitLab token": f"glpat-{made(20)}",
    "AWS key id": f"AKIA{made(16, string.ascii_uppercase + string.digits)}",
    "Google API key": f"AIza{made(35)}",
    "Slack token": f"xoxb-{made(12, string.digits)}-{made(24)}",
    "npm token": f"npm_{made(36)}",
    "PyPI token": f"pypi-AgEIcHlwaS5vcmc{made(80)}",
    "Hugging Face token": f"hf_{made(34, string.ascii_letters)}",
    "SendGrid key": f"SG.{made(22)}.{made(43)}",
    "DigitalOcean token": f"dop_v1_{made(64, HEX)}",
    "Telegram token": f"{made(9, '123456789')}:AA{made(33)}",
    "JSON web token": f"eyJ{made(30)}.eyJ{made(60)}.{made(43)}",
    "Vault token": f"hvs.{made(40)}",
    "Groq key": f"gsk_{made(52)}",
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_well_known_providers_are_masked_anywhere_in_a_text(kind: str) -> None:
    key = KEYS[kind]
    for text in (key, f"a {key} b", f'k = "{key}"', f"({key})", f"https://x.example/?q={key}", f"x:\n  y: {key}\n"):
        masked, found = mask(text)
        assert key not in masked
        assert found


def test_mask_returns_the_secrets_it_found() -> None:
    key = KEYS["GitHub token"]
    assert mask(f"token {key}\n") == ("token [hidden: GitHub token]\n", (Secret("GitHub token", 6, 46),))


def test_a_truncated_private_key_is_masked() -> None:
    body = "\n".join(made(64, ALPHABET + "+/", seed) for seed in range(12))
    whole = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n"
    masked, _ = mask(f"a\n{whole}b")
    assert masked == ("a\n-----BEGIN OPENSSH PRIVATE KEY-----[hidden: private key]-----END OPENSSH PRIVATE KEY-----\nb")
    assert body[200:260] not in mask(whole[:400])[0]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("DATABASE_PASSWORD=hunter2Horse!", "DATABASE_PASSWORD=[hidden: secret]"),
        ("export API_TOKEN='a8f5f167f44f4964e6c998dee827110c'", "export API_TOKEN='[hidden: secret]'"),
        ('"client_secret": "Zx81kQp93LmN4vBt72Rw"', '"client_secret": "[hidden: secret]"'),
        ("api_key: 9f86d081884c7d659a2feaa0c55ad015", "api_key: [hidden: secret]"),
        ("password := `Tr0ub4dor&3xyzzy99!`", "password := `[hidden: secret]`"),
        (
            "postgres://app:s3cr3tPw9@db.example.com/x",
            "postgres://app:[hidden: password in an address]@db.example.com/x",
        ),
        (
            "https://me:ghx9128371@github.com/a/b.git",
            "https://me:[hidden: password in an address]@github.com/a/b.git",
        ),
        ("Authorization: Bearer 8s7df6g87sd6fg87sd6f", "Authorization: Bearer [hidden: authorization]"),
    ],
)
def test_random_values_after_a_telling_name_are_masked(text: str, masked: str) -> None:
    assert mask(text)[0] == masked


@pytest.mark.parametrize(
    "text",
    [
        "token = tokenize.NAME",
        "password = getpass.getpass()",
        "API_KEY=your-api-key-here",
        "API_KEY=${API_KEY}",
        "API_KEY=<insert key>",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "secret_key: str | None = None",
        "self.access_token = response.json()['access_token']",
        '"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvSg=="',
        "commit 3401b0a9c5f1e5d2b7a8c9d0e1f2a3b4c5d6e7f8",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "id: 123e4567-e89b-12d3-a456-426614174000",
        "http://user:password@host/",
        "http://user:pass@host/",
        "https://example.com:8080/path@x",
        "git@github.com:a/b.git",
        "password: string",
        "PASSWORD_FIELD = 'password_confirmation'",
        "private_key: PKCS7PrivateKeyTypes",
        "token_type_ids = tokenizer.convert_ids_to_tokens(ids)",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "skeleton sk-learn sk-toggleable__content",
        "AKIA is a prefix",
        "key = 'a' * 32",
        "MAX_TOKENS=4096",
        "tokens: 12345678",
    ],
)
def test_ordinary_text_is_not_masked(text: str) -> None:
    assert mask(text) == (text, ())


def test_the_standard_library_has_no_false_positives() -> None:
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    packages = ("asyncio", "email", "http", "json", "urllib", "xml", "importlib", "logging", "concurrent")
    files = [*stdlib.glob("*.py"), *(path for name in packages for path in stdlib.glob(f"{name}/**/*.py"))]
    assert len(files) > 200
    alarms = {path.name: mask(path.read_text("utf-8", "replace"))[1] for path in files}
    assert {name: found for name, found in alarms.items() if found} == {}


def test_our_own_sources_have_no_false_positives() -> None:
    files = list((Path(__file__).parents[2] / "server").rglob("*.py"))
    assert files
    assert {path.name: found for path in files if (found := mask(path.read_text("utf-8"))[1])} == {}


@given(st.text(max_size=200), st.sampled_from(sorted(KEYS)), st.text(max_size=200))
@settings(max_examples=tries(80), deadline=None)
def test_masking_hides_every_key_and_changes_nothing_else(before: str, kind: str, after: str) -> None:
    text = f"{before}\n{KEYS[kind]}\n{after}"
    masked, found = mask(text)
    assert KEYS[kind] not in masked
    rebuilt: list[str] = []
    at = 0
    for secret in found:
        rebuilt += [text[at : secret.start], f"[hidden: {secret.kind}]"]
        at = secret.end
    assert masked == "".join((*rebuilt, text[at:]))
    assert mask(masked)[0] == masked


def test_the_placeholder_is_found_in_nested_values() -> None:
    masked, _ = mask(f"k = {KEYS['GitHub token']}")
    assert has_mark({"edits": [{"old": "a", "new": masked}]})
    assert not has_mark({"edits": [{"old": "a", "new": "[hidden]"}], "n": 1, "x": None})


@pytest.mark.parametrize(
    "unit",
    [
        "secret",
        "secret='",
        "-----BEGIN PRIVATE KEY-----",
        "eyJaaaaaaaaaaaa.",
        "a://b:",
        "password:    ",
        "sk-",
        "xoxb-a-",
    ],
)
def test_masking_is_linear_for_adversarial_text(unit: str) -> None:
    mask(unit * (300_000 // len(unit)))


@pytest.mark.parametrize(
    "text",
    [
        "config/.env:API_KEY=hJ8kd92Lsmw0Qpx7Zt\n",
        ".env:3:DATABASE_PASSWORD=hJ8kd92Lsmw0Qpx7Zt\n",
        "https://api.example.org/v1?access_token=hJ8kd92Lsmw0Qpx7Zt&page=2\n",
        "MIIEowIBAAKCAQEAhJ8kd92Lsmw0Qpx7Zt+aB3\nhJ8kd92Lsmw0Qpx7ZtMIIEowIBAAKCAQEA9Q\n-----END RSA PRIVATE KEY-----\n",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nQyNTUxOQAAACDhJ8kd92Lsmw0Qpx7Zt\n",
    ],
)
def test_secrets_after_file_names_in_urls_and_without_a_header_are_masked(text: str) -> None:
    masked, found = mask(text)
    assert found
    assert "hJ8kd92Lsmw0Qpx7Zt" not in masked
