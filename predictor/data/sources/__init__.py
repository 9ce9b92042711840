"""Readers of real job logs: one module per format, each a pure function from a log file to canonical rows."""
