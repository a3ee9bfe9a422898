"""What the scripts of ``preprocess/`` share: reading and cleaning text, writing an output directory, looking for leaks.

The scripts run as ``python preprocess/<name>.py``, which puts their own folder on the path: ``from corpus.output import
Output``. Nothing here imports ``wean_fairseq``.
"""
