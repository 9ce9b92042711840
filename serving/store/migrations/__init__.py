"""This module is the package of the migrations, which alembic runs from here."""
