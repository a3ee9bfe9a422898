"""Naive, slow, obviously right versions of the mechanisms, written from the papers only: the oracles of the tests."""
