"""``wean-inspect``: a page on this computer that shows what loaded checkpoints make of a sentence, word by word."""
