"""The steps that turn plain text into tokens of a model, and back.

Data preparation and trained models use the same steps.
"""

from .cleaning import Cleaner
from .settings import TOKENS, Text, TextSettings, prepared_text, read_text_settings, small_splits, without_manifest
