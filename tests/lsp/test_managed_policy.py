"""The policy of an organisation, enforced by the real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.client import RpcError
from tests.support.provider import call, say
from tests.support.served import Rig, served
from tests.support.terminal import piped


def managed(tmp_path: Path, text: str) -> Any:
    """A server under this policy."""
    folder, file = tmp_path / "work", tmp_path / "policy.toml"
    folder.mkdir()
    file.write_text(text)
    return served(folder, home=tmp_path / "home", PILOTFISH_POLICY=str(file))


async def failure(rig: Rig, prompt: str) -> str:
    """What a prompt that cannot run is answered with."""
    session = await rig.client.new_session()
    try:
        result = await rig.client.prompt(session, prompt)
    except RpcError as error:
        return str(error)
    assert result.error is not None
    return f"{result.error.message} {result.error.remedy}"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ('providers = ["anthropic"]', "not permitted; permitted: anthropic"),
        ('models = ["openai:gpt-*"]', "not permitted; permitted: openai:gpt-*"),
        ('addresses = ["https://api.openai.com"]', "permitted: https://api.openai.com"),
        ("modes = [", "cannot be read"),
    ],
)
async def test_no_request_is_sent_that_the_policy_does_not_permit(tmp_path: Path, policy: str, words: str):
    async with managed(tmp_path, policy) as rig:
        said = await failure(rig, "hello")
        assert words in said
        assert "administrator" in said
        assert rig.provider.requests == []


async def test_modes_rules_and_servers_are_restricted_and_said(tmp_path: Path):
    policy = (
        'providers = ["openai"]\nmodes = ["ask", "plan"]\nmcpServers = []\n'
        'rules = [{ decision = "deny", tool = "write", pattern = "locked/**" }]\n'
    )
    async with managed(tmp_path, policy) as rig:
        with pytest.raises(RpcError, match="does not permit auto"):
            await rig.client.request("pilotfish/session/new", {"mode": "auto"})
        session = await rig.client.new_session()
        with pytest.raises(RpcError, match="does not permit edit"):
            await rig.client.request("pilotfish/session/configure", {"sessionId": session, "mode": "edit"})
        name = rig.script("lock", call("write_file", path="locked/a.txt", content="x"), say("Denied."))
        await rig.client.prompt(session, name)
        assert not (rig.folder / "locked").exists()
        assert "Not allowed" in str(rig.provider.requests[-1].messages)
        rules = (await rig.client.request("pilotfish/rule/list", {}))["rules"]
        assert [(rule["scope"], rule["words"].rpartition(", ")[2]) for rule in rules] == [
            ("managed", "set by your organisation")
        ]
        status = await rig.client.request("pilotfish/status")
        assert status["managed"] == ["providers: openai", "modes: ask, plan", "rules: 1", "mcpServers: none"]


async def test_the_budget_of_a_day_ends_work_in_every_session(tmp_path: Path):
    async with managed(tmp_path, "budget = { tokens = 10 }") as rig:
        first = await rig.client.new_session()
        await rig.client.prompt(first, rig.script("first", say("A long answer. " * 20)))
        sent = len(rig.provider.requests)
        assert sent == 1
        assert "budget of a user for one day is used up" in await failure(rig, rig.script("second", say("More.")))
        assert len(rig.provider.requests) == sent


async def test_the_doctor_says_what_is_managed_and_what_is_broken(tmp_path: Path):
    file = tmp_path / "policy.toml"
    file.write_text('sandbox = "required"\n')
    _, out, _ = await piped(tmp_path, "doctor", env={"PILOTFISH_POLICY": str(file)})
    assert "✓ managed   sandbox: required" in out
    file.write_text("sandbox = true\n")
    code, out, _ = await piped(tmp_path, "doctor", env={"PILOTFISH_POLICY": str(file)})
    assert code == 1
    assert f"✗ managed   The policy {file} cannot be used: sandbox:" in out
