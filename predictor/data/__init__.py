"""The canonical job table: its schema, its validation, its readers, its time splits."""
