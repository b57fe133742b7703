"""Workers: real processes of `pilotfish worker` on a real PostgreSQL, with a role for each user."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from tests.background.test_tasks import FILES, editing, held_back, listed, start, task_processes, until
from tests.support.client import Client, allow, connect, environment, never
from tests.support.postgres import PrivateServer, new_store
from tests.support.provider import Provider, call, say, serve
from tests.support.provider_script import Reply
from tests.support.repository import git, make_repository, state_of

pytest.importorskip("procrastinate")

LEASE = 2


@dataclass(frozen=True)
class Team:
    """A database with a queue, a worker's role, and a role for each of two users."""

    admin: str
    tmp_path: Path
    provider: Provider

    def url(self, role: str) -> str:
        parts = urlsplit(self.admin)
        host = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{role}@{host}").geturl()

    def environment(self, storage: str) -> dict[str, Any]:
        return {
            "PILOTFISH_MODEL": "openai-chat:scripted",
            "PILOTFISH_BASE_URL": self.provider.openai_url,
            "OPENAI_API_KEY": "sk-scripted",
            "PILOTFISH_STORAGE": storage,
        }

    @asynccontextmanager
    async def editor(self, folder: Path, role: str) -> AsyncGenerator[Client]:
        home = self.tmp_path / f"home-{role}"
        async with connect(folder, home=home, **self.environment(self.url(role))) as client:
            yield client

    @asynccontextmanager
    async def worker(
        self, *options: str, name: str = "worker", more: Mapping[str, str] | None = None
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """A worker that is ready; killed at the end."""
        env = environment(self.tmp_path / f"home-{name}", **self.environment(self.url(ROLE_OF_WORKER)), **(more or {}))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pilotfish", "worker", "--lease", str(LEASE), *options),
            env=env,
            cwd=self.tmp_path,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert b"A worker of postgresql://" in await asyncio.wait_for(process.stdout.readline(), 90)
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(process.wait(), 30)
                except TimeoutError:
                    process.kill()
                    await process.wait()


ROLE_OF_WORKER, USERS = "pf_worker", ("pf_alice", "pf_bob")


@asynccontextmanager
async def team(
    tmp_path: Path, *script: Reply, per_user: int = 1, server: PrivateServer | None = None
) -> AsyncGenerator[Team]:
    admin = server.new_store() if server else new_store()
    (tmp_path / "set-up").mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pilotfish", "worker", "--set-up", "--per-user", str(per_user)),
        env=environment(tmp_path / "home-admin", PILOTFISH_STORAGE=admin),
        cwd=tmp_path / "set-up",
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told
    schema = told.decode().split("schema ")[1].split(";")[0].removesuffix("_queue")
    _grant(admin, schema)
    async with serve(*script) as provider:
        yield Team(admin, tmp_path, provider)


def _grant(admin: str, schema: str) -> None:
    """What docs/teams.md tells an administrator to do."""
    with psycopg.connect(admin, autocommit=True) as db:
        for role in (ROLE_OF_WORKER, *USERS):
            known = db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
            if known is None:
                db.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        names = {
            "schema": sql.Identifier(schema),
            "queue": sql.Identifier(f"{schema}_queue"),
            "worker": sql.Identifier(ROLE_OF_WORKER),
            "users": sql.SQL(", ").join(map(sql.Identifier, USERS)),
        }
        db.execute(
            sql.SQL(
                "GRANT USAGE ON SCHEMA {schema} TO {users}, {worker};"
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {users};"
                "GRANT USAGE ON SCHEMA {queue} TO {worker};"
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {queue} TO {worker};"
                "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {queue} TO {worker};"
                "GRANT {users} TO {worker};"
            ).format(**names)
        )


def pushed_repository(tmp_path: Path, name: str = "work") -> tuple[Path, Path]:
    """A user's clone of a repository, and the repository that it was pushed to."""
    origin, folder = tmp_path / f"{name}.git", tmp_path / name
    origin.mkdir()
    git(origin, "init", "--quiet", "--bare", "--initial-branch=main")
    make_repository(folder, FILES)
    git(folder, "remote", "add", "origin", str(origin))
    git(folder, "push", "--quiet", "origin", "main")
    return folder, origin


async def test_a_worker_runs_a_task_and_its_changes_come_back_through_the_database(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, editing(), say("Done.")) as pg, pg.editor(folder, "pf_alice") as client:
        before = state_of(folder)
        session = await start(client)
        assert (await listed(client, session)).background is not None
        async with pg.worker("--remote", str(origin)):
            done = await until(client, session, "done", "failed")
        assert (done.state, done.has_changes, done.place.startswith("worker ")) == ("done", True, True)
        assert state_of(folder) == before
        await client.request("pilotfish/background/takeOver", {"sessionId": session})
        assert (folder / "a.txt").read_text() == "one\nTWO\nthree\n"
        pending = await client.request("pilotfish/review/list", {"sessionId": session})
        assert [Path(file["uri"]).name for file in pending["files"]] == ["a.txt"]


async def test_a_question_of_a_worker_is_answered_in_its_owners_editor_and_followed_there(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, editing(), say("Done.")) as pg, pg.editor(folder, "pf_alice") as client:
        client.answers["pilotfish/approval/request"] = allow
        async with pg.worker("--remote", str(origin)):
            session = await start(client, mode="ask")
            await client.load(session)
            assert (await until(client, session, "done", "failed")).state == "done"
        [asked] = client.of("pilotfish/approval/request")
        assert asked["call"]["name"] == "update_file"
        await client.first_update("turn_ended", session)


async def test_the_task_of_a_killed_worker_goes_on_in_another_one(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, editing(), held_back(say("never"))) as pg, pg.editor(folder, "pf_alice") as client:
        async with pg.worker("--remote", str(origin), name="first") as first:
            session = await start(client)
            await pg.provider.received(2)
            first.send_signal(signal.SIGKILL)
            await first.wait()
        pg.provider.replies.append(say("Gone on."))
        async with pg.worker("--remote", str(origin), name="second"):
            done = await until(client, session, "done", "failed")
        assert (done.state, done.has_changes) == ("done", True)
        last = json.dumps(pg.provider.requests[-1].messages)
        assert "goes on in a fresh worktree" in last  # the second worker has another directory: the edit is restored
        await client.request("pilotfish/background/takeOver", {"sessionId": session})
        assert (folder / "a.txt").read_text() == "one\nTWO\nthree\n"


async def test_an_open_question_of_a_killed_worker_is_asked_again(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, editing(), say("Done.")) as pg, pg.editor(folder, "pf_alice") as client:
        client.answers["pilotfish/approval/request"] = never
        async with pg.worker("--remote", str(origin), name="first") as first:
            session = await start(client, mode="ask")
            await client.load(session)
            await client.until(lambda: len(client.of("pilotfish/approval/request")) == 1)
            first.send_signal(signal.SIGKILL)
            await first.wait()
        client.answers["pilotfish/approval/request"] = allow
        async with pg.worker("--remote", str(origin), name="second"):
            assert (await until(client, session, "done", "failed")).state == "done"
        assert len(pg.provider.requests) == 2  # the model was not asked for the call again


async def test_a_task_is_stopped_from_the_editor_with_a_receipt(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, editing(), held_back(say("never"))) as pg, pg.editor(folder, "pf_alice") as client:
        session = await start(client)
        async with pg.worker("--remote", str(origin)):
            await pg.provider.received(2)
            receipt = await client.request("pilotfish/session/cancel", {"sessionId": session})
            assert receipt["changedFiles"] == [(folder / "a.txt").as_uri()]
            assert (await until(client, session, "cancelled", "done")).has_changes


async def test_a_queued_task_is_withdrawn_before_a_worker_takes_it(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, say("Done.")) as pg, pg.editor(folder, "pf_alice") as client:
        first, second = await start(client, "first"), await start(client, "second")
        await client.request("pilotfish/session/cancel", {"sessionId": first})
        assert (await until(client, first, "cancelled")).has_changes is False
        async with pg.worker("--remote", str(origin)):
            await until(client, second, "done")
        assert len(pg.provider.requests) == 1


async def test_users_take_turns_and_see_nothing_of_each_other(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    replies = [say("Done.") for _ in range(4)]
    async with team(tmp_path, *replies) as pg:
        schema = _schema(pg)
        async with pg.editor(folder, "pf_alice") as alice, pg.editor(folder, "pf_bob") as bob:
            of_alice = [await start(alice, f"alice {number}") for number in range(3)]
            of_bob = await start(bob, "bob 0")
            async with pg.worker("--remote", str(origin), "--concurrency", "1"):
                for session in of_alice:
                    await until(alice, session, "done")
                await until(bob, of_bob, "done")
            order = [json.dumps(request.messages[-1]) for request in pg.provider.requests]
            assert next(index for index, text in enumerate(order) if "bob 0" in text) <= 1
            seen = (await bob.request("pilotfish/session/list", {}))["sessions"]
            assert [one["id"] for one in seen] == [of_bob]
    with psycopg.connect(pg.url("pf_bob"), autocommit=True) as db, pytest.raises(psycopg.errors.Error):
        db.execute(f"SELECT * FROM {schema}_queue.procrastinate_jobs".encode())
    with psycopg.connect(pg.url("pf_bob"), autocommit=True) as db:
        assert db.execute("SELECT count(*) FROM jobs WHERE owner = 'pf_alice'").fetchone() == (0,)
        with pytest.raises(psycopg.errors.Error):
            db.execute(
                "INSERT INTO jobs (session, state, spec, place, note, created_at, updated_at, owner)"
                " VALUES (%s, 'queued', '{}', 'a worker', '', 0, 0, 'pf_alice')",
                (of_bob,),
            )


async def test_nobody_queues_a_task_of_another_user_through_the_function_of_the_queue(tmp_path: Path):
    async with team(tmp_path) as pg:
        schema = _schema(pg)
        with psycopg.connect(pg.url("pf_bob"), autocommit=True) as db:
            db.execute("CREATE TEMP TABLE jobs (session text, owner text, state text, place text)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(
                    "CREATE TRIGGER own AFTER INSERT ON jobs FOR EACH ROW"
                    f" EXECUTE FUNCTION {schema}.enqueue_job()".encode()
                )
        with psycopg.connect(pg.admin, autocommit=True) as db:
            db.execute("CREATE TEMP TABLE jobs (session text, owner text, state text, place text)")
            trigger = "CREATE TRIGGER own AFTER INSERT ON pg_temp.jobs FOR EACH ROW"
            db.execute(f"{trigger} EXECUTE FUNCTION {schema}.enqueue_job()".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not the table of jobs"):
                db.execute("INSERT INTO pg_temp.jobs VALUES ('s', 'pf_alice', 'queued', 'a worker')")


async def test_a_task_whose_commit_is_an_option_of_git_fails_and_runs_nothing(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path) as pg, pg.editor(folder, "pf_alice") as client:
        session = await start(client)
        evil = f"--upload-pack=touch {tmp_path / 'ran'};"
        with psycopg.connect(pg.url("pf_alice"), autocommit=True) as db:
            db.execute("UPDATE jobs SET spec = jsonb_set(spec::jsonb, '{commit}', to_jsonb(%s::text))::text", (evil,))
        async with pg.worker("--remote", str(origin)):
            failed = await until(client, session, "failed", "done")
        assert "cannot be read" in failed.note
        assert not (tmp_path / "ran").exists()


async def test_a_task_of_a_user_for_whom_workers_may_not_act_fails_with_that_reason(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path) as pg, pg.editor(folder, "pf_bob") as client:
        with psycopg.connect(pg.admin, autocommit=True) as db:
            db.execute(f"REVOKE pf_bob FROM {ROLE_OF_WORKER}".encode())
        session = await start(client)
        async with pg.worker("--remote", str(origin)):
            failed = await until(client, session, "failed")
        assert "may not act for pf_bob" in failed.note
        assert "GRANT pf_bob TO pf_worker" in failed.note
        assert pg.provider.requests == []


def _begun_four_times(pg: Team) -> None:
    with psycopg.connect(pg.admin, autocommit=True) as db:
        done = db.execute(f"UPDATE {_schema(pg)}_queue.procrastinate_jobs SET attempts = 4".encode())
        assert done.rowcount == 1


async def test_a_task_whose_process_has_died_five_times_fails_with_that_reason(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, held_back(say("never"))) as pg, pg.editor(folder, "pf_alice") as client:
        session = await start(client)
        _begun_four_times(pg)
        async with pg.worker("--remote", str(origin)):
            await pg.provider.received(1)
            for process in task_processes(tmp_path, session):
                process.kill()
            failed = await until(client, session, "failed")
        assert "begun 5 times" in failed.note


async def test_a_task_whose_worker_has_died_five_times_fails_with_that_reason(tmp_path: Path):
    folder, origin = pushed_repository(tmp_path)
    async with team(tmp_path, held_back(say("never"))) as pg, pg.editor(folder, "pf_alice") as client:
        session = await start(client)
        _begun_four_times(pg)
        async with pg.worker("--remote", str(origin), name="first") as first:
            await pg.provider.received(1)
            first.send_signal(signal.SIGKILL)
            await first.wait()
        async with pg.worker("--remote", str(origin), name="second"):
            failed = await until(client, session, "failed")
        assert "begun 5 times" in failed.note
        assert len(pg.provider.requests) == 1


@pytest.mark.parametrize("busy", [False, True])
async def test_a_worker_whose_database_is_gone_ends_at_a_signal(tmp_path: Path, busy: bool):
    folder, origin = pushed_repository(tmp_path)
    server = PrivateServer()
    try:
        async with (
            team(tmp_path, held_back(say("never")), server=server) as pg,
            pg.editor(folder, "pf_alice") as client,
            pg.worker("--remote", str(origin)) as worker,
        ):
            if busy:
                await start(client)
                await pg.provider.received(1)
            server.kill()
            worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):  # it waits for 30 seconds and more where it waits for the database
                await worker.wait()
            assert task_processes(tmp_path) == []
    finally:
        server.stop()


def _schema(pg: Team) -> str:
    with psycopg.connect(pg.admin) as db:
        row = db.execute("SELECT current_schema()").fetchone()
        assert row is not None
        return str(row[0])


async def test_a_worker_fetches_only_from_allowed_remotes(tmp_path: Path):
    folder, _ = pushed_repository(tmp_path)
    async with team(tmp_path) as pg, pg.editor(folder, "pf_alice") as client:
        async with pg.worker("--remote", "https://git.example.org/*"):
            session = await start(client)
            failed = await until(client, session, "failed")
        assert "may not fetch from" in failed.note
        assert pg.provider.requests == []


async def test_a_commit_that_is_not_pushed_runs_on_the_users_machine(tmp_path: Path):
    folder, _ = pushed_repository(tmp_path)
    (folder / "b.txt").write_text("newer\n")
    git(folder, "commit", "--quiet", "--all", "--message", "not pushed")
    script = (call("read_file", path="b.txt"), say("Done."))
    async with team(tmp_path, *script) as pg, pg.editor(folder, "pf_alice") as client:
        prompt = {"prompt": [{"type": "text", "text": "Look"}], "mode": "edit"}
        started = await client.request("pilotfish/background/start", prompt)
        assert "is not pushed, so it runs on this machine" in started["notes"][0]
        done = await until(client, started["session"]["id"], "done", "failed")
        assert (done.state, done.has_changes) == ("done", False)
        assert "newer" in json.dumps(pg.provider.requests[1].messages)
