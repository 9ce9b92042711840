"""This module marks the simulator: recorded jobs played through the one Coordinator on a manual clock."""
