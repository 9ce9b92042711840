"""Command-line entry points of the service."""
