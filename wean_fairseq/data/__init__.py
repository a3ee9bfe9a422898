"""What the tasks load: checks of sentence pairs and their length limits."""

from .pairs import LENGTH_POLICIES, PairLimits, check_data_dir, check_pairs, limit_pairs

__all__ = ["LENGTH_POLICIES", "PairLimits", "check_data_dir", "check_pairs", "limit_pairs"]
