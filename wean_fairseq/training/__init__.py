"""Trainings on sentence pairs: defaults, progress, and records for the comparison with resumed runs.

``wean-train`` and the recipes of ``examples/`` share these modules. The recipes run them as ``python -m
wean_fairseq.training.NAME``, so they import PyTorch and fairseq only where they need them.
"""
