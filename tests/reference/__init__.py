"""Naive, slow and simple versions of the mechanisms, written only from the papers, as oracles of the tests."""
