"""This module runs migrations on the connection that the caller gives; alembic imports it."""

from alembic import context

from serving.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # SQLite can, since we begin our transactions ourselves
    render_as_batch=True,
)
context.run_migrations()
