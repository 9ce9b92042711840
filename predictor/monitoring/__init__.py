"""Alarms on forecasts and queue: what is wrong, the evidence, and what would help."""
