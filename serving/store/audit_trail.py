"""This module reads the audit trail: who changed what, the latest first."""

from collections.abc import Sequence

from sqlalchemy import Engine, select

from serving.store.database import reading
from serving.store.event_log import AuditEntry
from serving.store.tables import audit


def latest_audits(engine: Engine, limit: int) -> Sequence[AuditEntry]:
    """Return the latest entries.

    Raises:
        StoreUnavailableError: the database failed.
    """
    with reading(engine) as connection:
        rows = connection.execute(select(audit).order_by(audit.c.number.desc()).limit(limit)).all()
    return [
        AuditEntry(
            moment_s=row.moment_s, actor=row.actor, action=row.action, target=row.target, detail=row.detail,
            request_id=row.request_id,
        )
        for row in rows
    ]  # fmt: skip
