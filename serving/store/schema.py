"""This module brings the tables of the database to the version of this code."""

from dataclasses import dataclass
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from serving.store.database import reading, writing
from serving.store.errors import StoreSchemaError

_LOCK = 0x70726564  # any number that is the same in all our processes


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """Version of the tables, None = there are none yet, and the one that this code needs."""

    found: str | None
    wanted: str

    @property
    def is_current(self) -> bool:
        """Whether nothing is to be done."""
        return self.found == self.wanted


def schema_status(engine: Engine) -> SchemaStatus:
    """Return the version of the tables beside that of the code."""
    with reading(engine) as connection:
        return SchemaStatus(found=_found(connection), wanted=_head())


def migrate(engine: Engine) -> SchemaStatus:
    """Bring the tables to the version of this code in one transaction; return what was found before.

    Several instances may call this at the same time: one works, the others wait and find all done.

    Raises:
        StoreSchemaError: the tables are newer than this code.
    """
    if (status := schema_status(engine)).is_current:
        return status
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        found = _found(connection)
        known = {script.revision for script in _scripts().walk_revisions()}
        if found is not None and found not in known:
            raise StoreSchemaError(
                f"the database has tables of version {found}, which this program (version {_head()}) does "
                f"not know; run the newer program, or restore the back-up from before its upgrade"
            )
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return SchemaStatus(found=found, wanted=_head())


def require_current(engine: Engine) -> None:
    """Refuse tables of another version.

    Raises:
        StoreSchemaError: says what to do.
    """
    status = schema_status(engine)
    if not status.is_current:
        found = "no tables" if status.found is None else f"tables of version {status.found}"
        raise StoreSchemaError(
            f"the database has {found}, this program needs version {status.wanted}; "
            f"run 'predictor store migrate'"
        )


def _config() -> Config:
    config = Config()
    place = str(files("serving.store").joinpath("migrations"))
    config.set_main_option("script_location", place.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _head() -> str:
    head = _scripts().get_current_head()
    assert head is not None, "the package has migrations"  # noqa: S101
    return head


def _found(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
