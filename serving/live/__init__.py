"""The live feed: what changed, pushed to whoever watches."""
