"""Brackets, quotes and slashes as TurkCorpus's references spell them, whichever way a Wikipedia set has them."""

_SPELLING = {
    "lrb": "-lrb-", "rrb": "-rrb-", "-LRB-": "-lrb-", "-RRB-": "-rrb-", "LRB": "-lrb-", "RRB": "-rrb-",
    "(": "-lrb-", ")": "-rrb-", "``": '"', "''": '"',
}  # fmt: skip


def one_spelling(line: str) -> str:
    """One line of tokens in the one spelling."""
    return " ".join(_SPELLING.get(word, word) for word in line.replace("\\", "").split())
