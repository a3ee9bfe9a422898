"""Model families; importing one registers its archs."""

from . import copy_transformer, copynet, pointer_generator, wean_lstm

__all__ = ["copy_transformer", "copynet", "pointer_generator", "wean_lstm"]
