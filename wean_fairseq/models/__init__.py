"""Model families; importing one registers its archs."""

from . import wean_lstm

__all__ = ["wean_lstm"]
