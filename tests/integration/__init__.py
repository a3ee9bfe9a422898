"""Tests through the real commands."""
