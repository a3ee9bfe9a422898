"""Checkpoints: written whole, read safely, gone on from when intact, averaged, exported."""
