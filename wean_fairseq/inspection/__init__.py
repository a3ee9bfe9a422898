"""``wean-inspect``: a local page that shows the outputs of loaded checkpoints for a sentence, word by word."""
