"""Create a directory with a small untrained BERT, which tests pass to ``--bert``."""

from pathlib import Path

import torch

from wean_fairseq.optional import hide_broken_torchaudio

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LAYERS, WIDTH = 3, 10


def write_bert(folder: Path, pieces: list[str], seed: int = 3, layers: int = LAYERS, width: int = WIDTH) -> Path:
    """Write config, weights and tokenizer into ``folder``.

    Args:
        folder: folder to create.
        pieces: vocabulary, without the special tokens.
        seed: seed of the weights.
        layers: number of layers.
        width: hidden size.
    """
    hide_broken_torchaudio()
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = [*SPECIAL, *pieces]
    tokenizer = transformers.BertTokenizer(vocab={piece: number for number, piece in enumerate(vocabulary)})
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=24,
        # Large initial weights make the layers differ from the identity, so that tests notice a wrong mask or a wrong
        # order.
        initializer_range=0.4,
    )
    torch.manual_seed(seed)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return folder
