"""Trainings on sentence pairs: defaults, progress, and the records with which resumed runs are compared.

``wean-train`` and the recipes of ``examples/`` share these modules. The recipes run them as ``python -m
wean_fairseq.training.NAME``, so they import PyTorch and fairseq only where they need them.
"""
