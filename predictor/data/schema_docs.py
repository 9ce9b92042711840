"""This module prints the canonical job table as a page of documentation."""

from predictor.data.schema import JOB_TABLE, Column

_HEAD = """# The canonical job table

One row is one attempt of one job. Times are UTC; a quantity carries its unit in its name. *Known at* says
at which moment of a job's life a column is known: features may use columns known at `submit` only.

This page is generated from `predictor/data/schema.py` by `predictor.data.schema_docs.schema_page`; a test
holds it up to date.

| column | type | unit | known at | required | meaning |
|---|---|---|---|---|---|
"""


def schema_page() -> str:
    """Return the Markdown page that ``training_data/schema.md`` holds."""
    return _HEAD + "".join(f"{_row(column)}\n" for column in JOB_TABLE)


def _row(column: Column) -> str:
    required = "" if column.nullable else "yes"
    known_at = column.known_at.value
    cells = (f"`{column.name}`", column.type.value, column.unit, known_at, required, column.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
