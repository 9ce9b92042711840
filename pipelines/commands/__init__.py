"""Command-line entry points of the batch jobs, one module per sub-command."""
