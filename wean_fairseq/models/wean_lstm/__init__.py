"""WEAN (Ma et al., NAACL 2018) and its Seq2seq baseline."""

from .config import WeanLstmConfig
from .encoder import WeanLstmEncoder
from .model import WeanLstmModel
