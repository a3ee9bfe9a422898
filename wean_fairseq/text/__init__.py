"""Steps from plain text to the tokens of a model and back. Preparation and use share them."""

from .cleaning import Cleaner
from .settings import TOKENS, Text, TextSettings, prepared_text, read_text_settings, small_splits
