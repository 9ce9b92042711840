"""Measured GPU memory: readers of what monitors write, and the join onto jobs."""
