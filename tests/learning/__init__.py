"""Tests of whether the models learn."""
