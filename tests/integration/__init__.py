"""Tests that run the real commands."""
