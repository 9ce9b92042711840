"""This module makes the first tables: events, answers, checkpoints, lease, policies, audit and API keys."""

import sqlalchemy as sa
from alembic import op

from serving.store.errors import StoreSchemaError

revision = "0001"
down_revision = None

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables, and the lease that nobody holds."""
    op.create_table(
        "events",
        sa.Column("sequence", _BIG, primary_key=True, autoincrement=False),
        sa.Column("epoch", _BIG, nullable=False),
        sa.Column("moment_s", sa.Double, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "answers",
        sa.Column("actor", sa.String(200), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("moment_s", sa.Double, nullable=False),
    )
    op.create_index("answers_by_moment", "answers", ["moment_s"])
    op.create_table(
        "checkpoints",
        sa.Column("sequence", _BIG, primary_key=True, autoincrement=False),
        sa.Column("moment_s", sa.Double, nullable=False),
        sa.Column("form", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    lease = op.create_table(
        "lease",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("epoch", _BIG, nullable=False),
        sa.Column("beat", _BIG, nullable=False),
        sa.Column("holder", sa.String(200), nullable=True),
        sa.Column("next_sequence", _BIG, nullable=False),
    )
    op.bulk_insert(lease, [{"name": "writer", "epoch": 0, "beat": 0, "holder": None, "next_sequence": 1}])
    op.create_table(
        "policies",
        sa.Column("version", _BIG, primary_key=True, autoincrement=False),
        sa.Column("moment_s", sa.Double, nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", _BIG, primary_key=True, autoincrement=True),
        sa.Column("moment_s", sa.Double, nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(255), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("request_id", sa.String(128), nullable=False),
    )
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("expires_s", sa.Double, nullable=True),
        sa.Column("revoked_s", sa.Double, nullable=True),
    )


def downgrade() -> None:
    """Refuse: an event log is not thrown away by a command."""
    raise StoreSchemaError("there is nothing before the first version; restore a back-up instead")
