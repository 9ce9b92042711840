"""This module keeps API keys in the database, and notes who made and revoked them."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, Engine, insert, select, update

from serving.security.keys import ApiKey
from serving.store.database import reading, writing
from serving.store.tables import api_keys, audit


class KeyTable:
    """The keys of one database; the engine belongs to the caller."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read_keys(self) -> Sequence[ApiKey]:
        """Return all keys, oldest first, those that ended too."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.created_s)).all()
        return [ApiKey(**{**row._mapping, "scopes": frozenset(row.scopes.split())}) for row in rows]

    def add(self, key: ApiKey, *, actor: str) -> None:
        """Keep a new key."""
        values = {
            "key_id": key.key_id, "name": key.name, "scopes": " ".join(sorted(key.scopes)),
            "digest": key.digest, "created_s": key.created_s, "expires_s": key.expires_s,
        }  # fmt: skip
        with writing(self._engine) as connection:
            connection.execute(insert(api_keys).values(**values))
            _note(connection, key.created_s, actor, "key.create", key.key_id, {"scopes": values["scopes"]})

    def revoke(self, key_id: str, *, now_s: float, actor: str) -> bool:
        """End a key; False where there is none that is still in force."""
        ended = update(api_keys).where(api_keys.c.key_id == key_id, api_keys.c.revoked_s.is_(None))
        with writing(self._engine) as connection:
            if connection.execute(ended.values(revoked_s=now_s)).rowcount != 1:
                return False
            _note(connection, now_s, actor, "key.revoke", key_id, {})
        return True


def _note(
    connection: Connection, now_s: float, actor: str, action: str, target: str, detail: dict[str, object]
) -> None:
    text = msgspec.json.encode(detail).decode()
    connection.execute(
        insert(audit).values(
            moment_s=now_s, actor=actor, action=action, target=target, detail=text, request_id=""
        )
    )
