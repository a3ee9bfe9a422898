"""Naive, slow and simple versions of the mechanisms, written only from the papers. Tests use them as oracles."""
