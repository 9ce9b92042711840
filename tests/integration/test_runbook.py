"""The commands of the runbook, run as written on real services of this version and of a newer one."""

import os
import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.services.live_service import ROOT, LiveService, live_service
from tests.services.pages import run, snippets
from tests.services.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
AT_ONCE_S = 3.0  # less than the 4 seconds of a lease that nobody gave back
NEXT_MIGRATION = '''
"""This module adds a column and a table, as the next version might."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    """Add them."""
    op.add_column("events", sa.Column("remark", sa.Text, nullable=True))
    op.create_table("remarks", sa.Column("number", sa.Integer, primary_key=True))


def downgrade() -> None:
    """Is not offered."""
'''


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A folder with the service of the next version: this one, and one migration more."""
    folder = tmp_path / "newer"
    shutil.copytree(ROOT / "serving", folder / "serving")
    versions = folder / "serving" / "store" / "migrations" / "versions"
    head = max(path.name[1:5] for path in versions.glob("v*.py"))
    (versions / "v9999_next.py").write_text(NEXT_MIGRATION.format(head=head).lstrip())
    return folder


def submit(service: LiveService, *names: str) -> None:
    for name in names:
        service.post("/v1/jobs", {"job_id": name, "requested_gpus": 40, "walltime_s": 3600})


def jobs(service: LiveService) -> set[str]:
    """Return all jobs, those that run too."""
    items = service.get("/v1/queue")["items"] + service.get("/v1/jobs")["items"]
    return {item["job_id"] for item in items}


def check_that_it_refuses_to_start(service: LiveService) -> None:
    service.launch()
    assert service.process is not None
    assert service.process.wait(60) != 0
    assert "tables of version 9999" in service.log()
    assert "restore the back-up" in service.log()


def test_a_sqlite_store_is_backed_up_upgraded_rolled_back_and_restored(tmp_path: Path, newer: Path) -> None:
    home, fresh = tmp_path / "home", tmp_path / "fresh"
    home.mkdir()
    store = {"PREDICTOR_STORE": "sqlite:///runs/store/service.db"}
    (back_up, _), (restore, _) = snippets("runbook.md", "Back up"), snippets("runbook.md", "Restore")
    (keep_record,) = snippets("runbook.md", "Roll back")
    with live_service(tmp_path, store=f"sqlite:///{home}/runs/store/service.db") as service:
        service.start()
        submit(service, "a", "b")
        run(back_up, home, **store)
        submit(service, "late")
        service.stop()

        service.program = newer
        told = run("predictor store migrate", home, PYTHONPATH=str(newer), **store)
        assert told.strip() == "migrated from 0001: version 9999"
        service.start()
        assert jobs(service) == {"a", "b", "late"}
        submit(service, "newer")
        run(keep_record, home, PYTHONPATH=str(newer), **store)
        assert '"newer"' in (home / "backup" / "after-upgrade.jsonl").read_text()
        service.stop()

        service.program = ROOT
        check_that_it_refuses_to_start(service)
        shutil.copytree(home / "backup", fresh / "backup")  # as on another machine
        for folder in (fresh, home):
            run(restore, folder, **store)
            assert "next_sequence" in run("predictor store status", folder, **store)
        service.start()
        assert jobs(service) == {"a", "b"}
        for command in snippets("runbook.md", "The disk is full"):
            run(command, home, **store)
        assert len((home / "events.jsonl").read_text().splitlines()) >= 2
        submit(service, "late")


def test_a_standby_of_a_newer_version_takes_over_and_a_dump_from_before_takes_all_back(
    tmp_path: Path, newer: Path, database: Postgres
) -> None:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE predictor")
    address = urlsplit(database.url("predictor"))
    variables = {
        "PGHOST": str(address.hostname), "PGPORT": str(address.port), "PGUSER": str(address.username),
        "PATH": f"{database.binaries}:{os.environ['PATH']}", "PREDICTOR_STORE": database.url("predictor"),
    }  # fmt: skip
    (_, dump), (_, restore) = snippets("runbook.md", "Back up"), snippets("runbook.md", "Restore")
    store = variables["PREDICTOR_STORE"]
    with (
        live_service(tmp_path, store=store, name="a") as writer,
        live_service(tmp_path, store=store, name="b") as standby,
    ):
        writer.start()
        submit(writer, "a")
        run(dump, tmp_path, **variables)
        submit(writer, "b")

        standby.program = newer
        standby.launch().wait_for_role("standby")
        submit(writer, "c")  # the tables are newer than the writer, which goes on
        began = time.monotonic()
        writer.stop()
        standby.wait_for_role("leading")
        assert time.monotonic() - began < AT_ONCE_S
        submit(standby, "d")
        assert jobs(standby) == {"a", "b", "c", "d"}
        check_that_it_refuses_to_start(writer)
        assert jobs(standby) == {"a", "b", "c", "d"}

        standby.stop()
        run(restore, tmp_path, **variables)
        writer.start()
        assert jobs(writer) == {"a"}
        run("predictor store migrate", tmp_path, PYTHONPATH=str(newer), **variables)  # once more, later
