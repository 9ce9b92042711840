"""This module is the package of single migrations, oldest first."""
