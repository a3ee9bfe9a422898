"""Steps from plain text to the tokens of a model and back, the same in preparation and in use."""

from .cleaning import Cleaner
from .settings import TOKENS, Text, TextSettings, prepared_text, read_text_settings, small_splits
