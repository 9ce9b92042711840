"""The HTTP routes of the queue: one table of operations, served and described from the same entries."""
