"""WEAN (Ma et al., NAACL 2018) and its Seq2seq baseline."""

from .config import WeanLstmConfig
from .model import WeanLstmEncoder, WeanLstmModel
