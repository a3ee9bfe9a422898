"""Create a tiny BERT with a vocabulary that is learnt from text, and store it as a directory of transformers.

    python preprocess/make_tiny_bert.py --text data/essays/train.tgt --output data/bert --updates 2000

It replaces a published BERT (--bert DIR) in tests, smoke runs and on machines without one. Without --updates, the
weights are random. With --updates, the model is pre-trained on the text by masked-word prediction as in BERT (Devlin et
al., 2019, section 3.1, task 1). It predicts 15% of the pieces, of which 80% are replaced by [MASK], 10% by another
piece, and 10% are unchanged. The loss is measured on lines that are held out.
"""

import math
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from corpus.command import positive_number, run_once, whole_number
from corpus.learning import learner_parser, text_lines
from corpus.messages import say
from corpus.output import OutputFolder
from tqdm import tqdm

from wean_fairseq.errors import UserError
from wean_fairseq.optional import LazyModule, hide_broken_torchaudio

# They take seconds to import, which would delay --help, error messages, and runs with nothing to do.
tokenizers, torch, transformers = (LazyModule(name) for name in ("tokenizers", "torch", "transformers"))
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
HELD_OUT_EVERY, MOST_HELD_OUT = 20, 512
MASKED, UNCHANGED, OTHER_PIECE = 0.15, 0.1, 0.1
LARGEST_RATE = 1.0  # at a higher learning rate AdamW only diverges
_IGNORED = -100  # transformers skips pieces with this label in the loss


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = learner_parser("make_tiny_bert", __doc__)
    options.add_argument("--lowercase", action="store_true", help="an uncased BERT, which strips accents too")
    group = options.add_argument_group("model")
    group.add_argument(
        "--vocabulary", type=whole_number(6, 1_000_000), default=8000, metavar="N", help="most word pieces"
    )
    group.add_argument("--layers", type=whole_number(1, 100), default=2, metavar="N", help="layers")
    group.add_argument("--dim", type=whole_number(1, 10_000), default=128, metavar="N", help="width")
    group.add_argument("--heads", type=whole_number(1, 1000), default=4, metavar="N", help="heads of attention")
    group.add_argument("--max-positions", type=whole_number(8, 100_000), default=128, metavar="N", help="longest line")
    group = options.add_argument_group("pre-training")
    group.add_argument(
        "--updates", type=whole_number(0, 10_000_000), default=0, metavar="N", help="steps, 0 = random weights"
    )
    group.add_argument("--batch-size", type=whole_number(1, 100_000), default=32, metavar="N", help="lines a step")
    group.add_argument("--lr", type=positive_number, default=1e-3, metavar="X", help="highest learning rate")
    return options


def write(options: Namespace, output: OutputFolder) -> str:
    """Create the vocabulary and the model, train the model, and write both. Return a description."""
    if options.dim % options.heads:
        raise UserError(f"--dim must be a multiple of --heads, but {options.dim} is none of {options.heads}.")
    if options.lr > LARGEST_RATE:
        raise UserError(f"--lr must be at most {LARGEST_RATE:g}, but is {options.lr:g}: the usual rate is 0.001.")
    _prepare_transformers()
    vocabulary = learn_vocabulary(options)
    tokenizer = transformers.BertTokenizer(
        vocab={piece: number for number, piece in enumerate(vocabulary)}, do_lower_case=options.lowercase
    )
    torch.manual_seed(options.seed)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=options.dim,
            num_hidden_layers=options.layers,
            num_attention_heads=options.heads,
            intermediate_size=4 * options.dim,
            max_position_embeddings=options.max_positions,
        )
    )
    say("make_tiny_bert", f"{len(vocabulary):,} pieces, {model.num_parameters():,} parameters")
    if options.updates:
        output.facts["pretraining"] = pretrain(options, tokenizer, model)
    tokenizer.save_pretrained(output.folder)
    model.save_pretrained(output.folder)
    # transformers writes only tokenizer.json. --wordpiece-vocab and older readers need vocab.txt.
    output.write_text("vocab.txt", "".join(f"{piece}\n" for piece in vocabulary))
    return f"wrote {options.output}"


def _prepare_transformers() -> None:
    """Import transformers even if torchaudio is broken. Hide its progress bars and advice."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    hide_broken_torchaudio()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def learn_vocabulary(options: Namespace) -> list[str]:
    """Return the word pieces in the order of their numbers. Chinese characters are separate pieces, as in BERT.

    The trainer of the library tokenizers numbers the characters inside words randomly, and uses these numbers to
    resolve ties. Therefore the characters are passed to it as special tokens in alphabetical order, so that the same
    text always gives the same vocabulary.
    """
    learner = tokenizers.BertWordPieceTokenizer(lowercase=options.lowercase)
    inner: set[str] = set()
    for line in text_lines(options.text):
        for word, _ in learner.pre_tokenizer.pre_tokenize_str(learner.normalizer.normalize_str(line)):
            inner.update(word[1:])
    learner.train_from_iterator(
        text_lines(options.text),
        vocab_size=options.vocabulary,
        limit_alphabet=options.vocabulary,
        min_frequency=1,
        special_tokens=[*SPECIAL, *(f"##{character}" for character in sorted(inner))],
        show_progress=False,
    )
    pieces = learner.get_vocab()
    if len(pieces) == len(SPECIAL):
        raise UserError("there is no word in the text.")
    return sorted(pieces, key=pieces.__getitem__)


# --- pre-training ---------------------------------------------------------------------------------------------------


def pretrain(options: Namespace, tokenizer: Any, model: Any) -> dict[str, float]:
    """Train by masked-word prediction. Return the held-out loss before and after training, in nats per masked piece."""
    encoded = (tokenizer(line, truncation=True, max_length=options.max_positions) for line in text_lines(options.text))
    lines = [line.input_ids for line in encoded if len(line.input_ids) > 2]  # others have only [CLS] and [SEP]
    out = set(range(0, len(lines), HELD_OUT_EVERY)[:MOST_HELD_OUT])
    held_out = [lines[number] for number in sorted(out)]
    training = [ids for number, ids in enumerate(lines) if number not in out]
    if not training:
        raise UserError("pre-training needs two lines of text at least.")
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    before = held_out_loss(model, tokenizer, held_out, options.batch_size)
    chance = torch.Generator().manual_seed(options.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    warm_up = max(1, options.updates // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warm_up, max(0.0, (options.updates - step) / (options.updates - warm_up + 1))),
    )
    model.train()
    for _ in tqdm(range(options.updates), desc="pre-training", unit=" updates", disable=None):
        chosen = torch.randint(len(training), (options.batch_size,), generator=chance).tolist()
        loss = model(**masked_batch([training[number] for number in chosen], tokenizer, chance, model.device)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    after = held_out_loss(model, tokenizer, held_out, options.batch_size)
    if not math.isfinite(after) or not all(weights.isfinite().all() for weights in model.parameters()):
        raise UserError(f"the pre-training diverged, so no file is written: lower --lr, which is {options.lr:g}.")
    say("make_tiny_bert", f"loss on {len(held_out)} held-out lines: {before:.3f} before, {after:.3f} after")
    return {"lines": len(training), "loss_before": round(before, 3), "loss_after": round(after, 3)}


def held_out_loss(model: Any, tokenizer: Any, lines: list[list[int]], batch_size: int) -> float:
    """Return the mean loss per masked piece. Every call masks the same pieces."""
    chance = torch.Generator().manual_seed(0)
    total, masked = 0.0, 0
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(lines), batch_size):
            batch = masked_batch(lines[start : start + batch_size], tokenizer, chance, model.device)
            number = int(batch["labels"].ne(_IGNORED).sum())
            total += float(model(**batch).loss) * number if number else 0.0
            masked += number
    return total / max(1, masked)


def masked_batch(lines: list[list[int]], tokenizer: Any, chance: Any, device: Any) -> dict[str, Any]:
    """Return the input with some pieces masked, and labels for only these pieces, both of shape (lines, pieces).

    Args:
        lines: ids of each line.
        tokenizer: tokenizer of the model.
        chance: a ``torch.Generator`` that chooses the pieces.
        device: device of the model.
    """
    width = max(map(len, lines))
    ids = torch.tensor([line + [tokenizer.pad_token_id] * (width - len(line)) for line in lines])
    lengths = torch.tensor([len(line) for line in lines])
    place = torch.arange(width)
    is_piece = (place > 0) & (place < lengths.unsqueeze(1) - 1)  # excludes [CLS], [SEP] and padding
    hidden = is_piece & (torch.rand(ids.shape, generator=chance) < MASKED)
    hidden[:, 1] |= ~hidden.any(dim=1)  # mask at least one piece per line, so that every step has a loss
    way = torch.rand(ids.shape, generator=chance)
    others = torch.randint(len(SPECIAL), len(tokenizer), ids.shape, generator=chance)
    inputs = torch.where(hidden & (way >= UNCHANGED), tokenizer.mask_token_id, ids)
    inputs = torch.where(hidden & (way >= 1 - OTHER_PIECE), others, inputs)
    batch = {
        "input_ids": inputs,
        "attention_mask": (place < lengths.unsqueeze(1)).long(),
        "labels": torch.where(hidden, ids, _IGNORED),
    }
    return {name: tensor.to(device) for name, tensor in batch.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    libraries = ("transformers", "tokenizers", "torch")
    return run_once(parser(), write, arguments, sources=lambda given: given.text, version="1", libraries=libraries)


if __name__ == "__main__":
    sys.exit(main())
