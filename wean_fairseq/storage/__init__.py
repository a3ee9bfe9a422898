"""Atomic writes, checksums that detect later changes, and the search options stored with a model."""
