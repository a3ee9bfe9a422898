"""DNPG, the decomposable neural paraphrase generator (Li et al., ACL 2019)."""

from .model import DnpgModel
