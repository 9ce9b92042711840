"""This module is the package of what the service keeps in its database; only it imports SQLAlchemy."""
