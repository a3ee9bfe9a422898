"""Atomic writes, and checksums that detect later changes."""
