"""Who may see, ask, answer and forge what between processes: enforced by the server against plain SQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any, cast

import psycopg
import pytest
from psycopg import errors
from tests.store.makers import session
from tests.store.test_sharing import urls_of_users

from pilotfish.errors import StorageError, UnknownSession
from pilotfish.store.catalog import Catalog
from pilotfish.store.controls import ControlRequest, Controls
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.jobs import JobRow
from pilotfish.store.tables.tables import ShareLevel

STOP = ControlRequest(id="ctl_alice", kind="cancel", body={"turnId": None, "callId": None})
QUESTION: dict[str, Any] = {
    "words": {"id": "q", "session_id": "s", "turn_id": "t", "question": "Delete it?", "options": []}
}


@dataclass(frozen=True)
class User:
    """One role: through our code, and around it."""

    url: str
    ledger: Ledger

    @property
    def controls(self) -> Controls:
        return Controls(self.ledger)

    @property
    def name(self) -> str:
        return self.url.split("//")[1].split("@")[0].rstrip(":")

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(psycopg.connect(self.url, autocommit=True)) as db:
            done = db.execute(statement.encode(), values)
            return done.fetchall() if done.description else [(done.rowcount,)]

    def changed(self, statement: str, *values: object) -> int:
        return cast("int", self.sql(statement, *values)[0][0])


@asynccontextmanager
async def shared(level: ShareLevel) -> AsyncGenerator[tuple[User, User]]:
    """Alice's session, whose turn has asked something and has a request of hers; and Bob."""
    alice, bob = [User(url, Ledger.open(url)) for url in await urls_of_users(2)]
    try:
        await Catalog(alice.ledger).create(session())
        await Catalog(alice.ledger).share("s", level)
        alice.controls.show_question("s", "q", QUESTION)
        await alice.controls.send("s", STOP)
        yield alice, bob
    finally:
        await alice.ledger.aclose()
        await bob.ledger.aclose()


def insert_request(user: User, id_: str, sender: str) -> None:
    user.sql("INSERT INTO controls (id, session, kind, body, sender) VALUES (%s, 1, 'cancel', '{}', %s)", id_, sender)


def insert_question(user: User, id_: str, asker: str) -> None:
    user.sql("INSERT INTO questions (id, session, body, asker) VALUES (%s, 1, '{}', %s)", id_, asker)


FORGERIES = (
    "UPDATE controls SET sender = current_user WHERE id = 'ctl_alice'",
    "UPDATE controls SET body = '{\"turnId\": \"other\"}' WHERE id = 'ctl_alice'",
    "UPDATE controls SET taker = 'somebody' WHERE id = 'ctl_alice'",
    "DELETE FROM controls WHERE id = 'ctl_alice'",
    "UPDATE questions SET body = '{}' WHERE id = 'q'",
    "UPDATE questions SET resolution = '{}' WHERE id = 'q'",
    "DELETE FROM questions WHERE id = 'q'",
)


def has_no_effect(user: User, statement: str) -> bool:
    try:
        return user.changed(statement) == 0
    except (errors.InsufficientPrivilege, errors.RaiseException):
        return True


@pytest.mark.parametrize("level", ["private", "read", "continue"])
async def test_nobody_changes_forges_or_deletes_the_requests_and_questions_of_another(level: ShareLevel):
    async with shared(level) as (alice, bob):
        for statement in FORGERIES:
            assert has_no_effect(bob, statement), statement
        for insert in (insert_request, insert_question):
            with pytest.raises(errors.InsufficientPrivilege):
                insert(bob, "forged", alice.name)
        assert alice.sql("SELECT sender, taken, taker, reply FROM controls") == [(alice.name, 0, None, None)]
        assert alice.sql("SELECT asker, resolution FROM questions") == [(alice.name, None)]


async def test_a_stranger_sees_nothing_and_inserts_nothing():
    async with shared("private") as (_, bob):
        assert bob.sql("SELECT * FROM questions") == bob.sql("SELECT * FROM controls") == []
        for insert in (insert_request, insert_question):
            with pytest.raises(errors.InsufficientPrivilege):
                insert(bob, "own", bob.name)
        assert await bob.controls.take("s") == ()
        with pytest.raises(UnknownSession):
            await bob.controls.send("s", STOP)
        assert await bob.controls.state(STOP.id) is None
        assert await bob.controls.withdraw(STOP.id) is None


async def test_who_may_only_read_follows_and_asks_for_nothing():
    async with shared("read") as (alice, bob):
        assert await bob.ledger.history("s") == []
        assert bob.sql("SELECT id FROM questions") == []  # the call that waits is in the records
        assert bob.sql("SELECT id FROM controls") == []  # what others type is not theirs to read before it is recorded
        for insert in (insert_request, insert_question):
            with pytest.raises(errors.InsufficientPrivilege):
                insert(bob, "own", bob.name)
        for kind in ("answer", "answer_words", "cancel", "prompt", "drop_prompt", "withdraw"):
            with pytest.raises(StorageError, match="has not shared it for this"):
                await bob.controls.send("s", ControlRequest(id=f"ctl_{kind}", kind=kind, body={}))
        assert bob.ledger.unsaved is None
        assert [one.id for one in await alice.controls.take("s")] == [STOP.id]


async def test_who_may_continue_can_only_refuse_the_request_of_another_and_in_the_own_name():
    async with shared("continue") as (alice, bob):
        assert bob.changed("UPDATE controls SET reply = '{\"accepted\": true}' WHERE id = 'ctl_alice'") == 1
        state = await alice.controls.state(STOP.id)
        assert state is not None
        assert state.reply is not None
        assert state.reply["error"]["type"] == "NotTrusted"
        assert bob.name in state.reply["error"]["message"]


async def test_a_request_that_its_own_user_has_taken_is_not_refused_by_another():
    async with shared("continue") as (alice, bob):
        [taken] = await alice.controls.take("s")
        assert has_no_effect(bob, "UPDATE controls SET reply = '{}' WHERE id = 'ctl_alice'")
        await alice.controls.reply("s", taken.id, {"receipt": {}})
        state = await alice.controls.state(STOP.id)
        assert state is not None
        assert state.reply == {"receipt": {}}


async def test_a_question_is_shown_for_an_answer_to_the_user_alone_whose_process_asks():
    async with shared("continue") as (alice, bob):
        insert_question(bob, "of_bob", bob.name)
        shown = [
            [one.id for one in await user.ledger.read(lambda tables: tables.controls.questions("s"))]
            for user in (alice, bob)
        ]
        assert shown == [["q"], ["of_bob"]]


async def test_requests_and_questions_of_everyone_are_deleted_with_their_session():
    async with shared("continue") as (alice, bob):
        await bob.controls.send("s", ControlRequest(id="ctl_bob", kind="cancel", body={}))
        await Catalog(alice.ledger).delete("s")
        [admin] = [alice.url.replace(alice.name, "postgres", 1)]
        with closing(psycopg.connect(admin)) as db:
            assert db.execute("SELECT count(*) FROM controls").fetchone() == (0,)
            assert db.execute("SELECT count(*) FROM questions").fetchone() == (0,)


async def test_a_job_belongs_to_the_owner_of_its_session():
    async with shared("continue") as (alice, bob):
        job = JobRow("s", "queued", "{}", "a worker", "", None, 0.0, 0.0)
        with pytest.raises(StorageError):
            await bob.ledger.write(lambda tables: tables.jobs.put(job))
        assert bob.ledger.unsaved is None
        await alice.ledger.write(lambda tables: tables.jobs.put(job))
        assert bob.sql("SELECT * FROM jobs") == []
        alice.sql(
            "INSERT INTO sessions (id, title, model, mode, created_at, updated_at)"
            " VALUES ('../../elsewhere', '', 'm', 'ask', 0, 0)"
        )
        with pytest.raises(errors.CheckViolation):
            alice.sql(
                "INSERT INTO jobs (session, state, spec, place, note, created_at, updated_at)"
                " VALUES ('../../elsewhere', 'queued', '{}', 'a worker', '', 0, 0)"
            )
        for statement in (
            "UPDATE jobs SET state = 'cancelled'",
            "UPDATE jobs SET owner = current_user",
            "DELETE FROM jobs",
        ):
            assert bob.changed(statement) == 0
        with pytest.raises(errors.InsufficientPrivilege):
            alice.sql("UPDATE jobs SET owner = %s", bob.name)


async def test_a_temporary_table_does_not_stand_in_for_ours_where_the_rights_of_the_administrator_hold():
    async with shared("private") as (alice, bob):
        blob = await alice.ledger.put_blob(b"kept")
        bob.sql(
            "DO $$ BEGIN CREATE TEMP TABLE uses (hash text, session bigint, n bigint);"
            f" PERFORM delete_unused_blobs(ARRAY['{blob}']); END $$"
        )
        assert await alice.ledger.get_blob(blob) == b"kept"
