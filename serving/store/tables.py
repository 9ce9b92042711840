"""This module describes the tables of the service's database; ``migrations/`` makes them."""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

WRITER = "writer"  # the one row of `lease`

_BIG = BigInteger().with_variant(Integer, "sqlite")  # SQLite: 64 bits as well, and a key may be its row id

metadata = MetaData()

# Payloads are text: PostgreSQL's type for JSON reorders keys, and a replay must read what was written.
events = Table(
    "events", metadata,
    Column("sequence", _BIG, primary_key=True, autoincrement=False),
    Column("epoch", _BIG, nullable=False),
    Column("moment_s", Double, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("payload", Text, nullable=False),
)  # fmt: skip

answers = Table(
    "answers", metadata,
    Column("actor", String(200), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("moment_s", Double, nullable=False),
    Index("answers_by_moment", "moment_s"),
)  # fmt: skip

checkpoints = Table(
    "checkpoints", metadata,
    Column("sequence", _BIG, primary_key=True, autoincrement=False),
    Column("moment_s", Double, nullable=False),
    Column("form", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("state", LargeBinary, nullable=False),
)  # fmt: skip

# The end of the log lies in the row of the lease: one conditional update fences, orders and locks an append.
lease = Table(
    "lease", metadata,
    Column("name", String(16), primary_key=True),
    Column("epoch", _BIG, nullable=False),
    Column("beat", _BIG, nullable=False),
    Column("holder", String(200), nullable=True),
    Column("next_sequence", _BIG, nullable=False),
)  # fmt: skip

policies = Table(
    "policies", metadata,
    Column("version", _BIG, primary_key=True, autoincrement=False),
    Column("moment_s", Double, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("note", Text, nullable=False),
    Column("document", Text, nullable=False),
)  # fmt: skip

audit = Table(
    "audit", metadata,
    Column("number", _BIG, primary_key=True, autoincrement=True),
    Column("moment_s", Double, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(255), nullable=False),
    Column("detail", Text, nullable=False),
    Column("request_id", String(128), nullable=False),
)  # fmt: skip

api_keys = Table(
    "api_keys", metadata,
    Column("key_id", String(32), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("scopes", String(200), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_s", Double, nullable=False),
    Column("expires_s", Double, nullable=True),
    Column("revoked_s", Double, nullable=True),
)  # fmt: skip
