"""The engine: the one writer of the queue, its durable log, and the views of its state."""
