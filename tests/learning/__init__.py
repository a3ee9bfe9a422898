"""Tests that models learn."""
