"""What the tasks load: checks of sentence pairs, their length limits, and the vocabulary that copying extends."""

from .extended_vocabulary import DEFAULT_SLOTS, ExtendedDictionary, SlotMap
from .pairs import LENGTH_POLICIES, PairLimits, check_data_dir, check_pairs, is_raw_text, limit_pairs

__all__ = [
    "DEFAULT_SLOTS",
    "LENGTH_POLICIES",
    "ExtendedDictionary",
    "PairLimits",
    "SlotMap",
    "check_data_dir",
    "check_pairs",
    "is_raw_text",
    "limit_pairs",
]
