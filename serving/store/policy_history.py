"""This module reads who changed the policy when, and what of it, the latest first."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, String, cast, select

from serving.store.database import reading
from serving.store.tables import api_keys, audit, policies

TARGET = "policy/"  # and the version: how the audit trail names a policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One version of the policy.

    Attributes:
        actor: id of the API key, "" = nobody is known by name; ``actor_name`` is the name of that key.
        document: the whole policy as JSON.
        detail: JSON of the audit trail, with what was before and after.
    """

    version: int
    moment_s: float
    actor: str
    actor_name: str
    note: str
    document: str
    detail: str


def policy_changes(engine: Engine, limit: int) -> Sequence[PolicyChange]:
    """Return the latest versions.

    Raises:
        StoreUnavailableError: the database failed.
    """
    named = TARGET + cast(policies.c.version, String)
    wanted = (
        select(policies, api_keys.c.name, audit.c.detail)
        .outerjoin(api_keys, api_keys.c.key_id == policies.c.actor)
        .outerjoin(audit, audit.c.target == named)
        .order_by(policies.c.version.desc())
        .limit(limit)
    )
    with reading(engine) as connection:
        rows = connection.execute(wanted).all()
    return [
        PolicyChange(
            version=row.version, moment_s=row.moment_s, actor=row.actor, actor_name=row.name or "",
            note=row.note, document=row.document, detail=row.detail or "{}",
        )
        for row in rows
    ]  # fmt: skip
