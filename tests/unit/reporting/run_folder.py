"""Create the run directory of a recipe from a few sentences, scored by the real scorer."""

import json
from pathlib import Path

from wean_fairseq.evaluation.cli import main as evaluate

SOURCES = ["how do i learn the piano", "what is a good book", "is the earth round", "why is the sky blue"]
REFERENCES = ["what is the best way to learn piano", "which book is good", "is earth a ball", "why is sky blue"]
OUTPUTS = {
    "transformer": ["how can i learn piano", "what is a book", "is the earth round", "why is the sky so blue"],
    "copy_transformer": ["how do i learn piano", "what is a good book", "is earth round", "why is sky blue"],
}
LOG = """\
{{'_name': None, 'common': {{'seed': {seed}, 'cpu': True}}, 'model': Namespace(arch='{system}')}}
num. shared model params: 3,586,984 (num. trained: 3,586,984)
epoch 001:     50 / 100 loss=5, nll_loss=5, num_updates=50, lr=0.1, train_wall=9, wall=9
epoch 001 | valid on 'valid' subset | loss 4 | nll_loss 4 | ppl 16 | num_updates 100
epoch 001 | loss 4.5 | nll_loss 4.5 | num_updates 100 | lr 0.1 | train_wall 20 | wall 30
epoch 002:     50 / 100 loss=4, nll_loss=4, num_updates=150, lr=0.1, train_wall=9, wall=40
epoch 002 | valid on 'valid' subset | loss 3 | nll_loss 3 | ppl 8 | num_updates 200 | best_loss 3
epoch 002 | loss 3.5 | nll_loss 3.5 | num_updates 200 | lr 0.1 | train_wall 30 | wall 60
done training in 60.0 seconds
"""


def generated(outputs: list[str], sources: list[str]) -> str:
    """Return text in the format of fairseq-generate, with the sentences in reverse order."""
    numbered = list(enumerate(zip(sources, outputs, strict=True)))
    return "".join(
        f"S-{n}\t{source}\nH-{n}\t-0.5\t{text}\nD-{n}\t-0.5\t{text}\n" for n, (source, text) in numbered[::-1]
    )


def make_run(
    folder: Path,
    *,
    seed: int = 1,
    outputs: dict[str, list[str]] | None = None,
    sources: list[str] | None = None,
    references: list[str] | None = None,
    preset: str = "paper:cdnpg-compat",
    script: str = "quora",
    **facts: object,
) -> Path:
    """Write the run directory. ``facts`` are for the manifest of the data."""
    sources, references = sources or SOURCES, references or REFERENCES
    text = folder / "text"
    text.mkdir(parents=True)
    (folder / "text-test").symlink_to("text")
    (text / "test.src").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    (text / "test.tgt").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    manifest = {"script": script, "splits": {"train": {"kept": 12345}}, **facts}
    (text / "manifest.json").write_text(json.dumps(manifest))
    (folder / "settings").write_text(f"SEED={seed}\nDATA=/somebody/private/data/{script}\nBATCH=64\n")
    arguments = []
    for name, lines in (outputs or OUTPUTS).items():
        system = folder / name
        system.mkdir()
        (system / "train.log").write_text(LOG.format(seed=seed, system=name))
        (system / "test.err").write_text(
            "Translated 4 sentences (9 tokens) in 0.1s (1,040.50 sentences/s, 90 tokens/s)\n"
        )
        (system / "test.log").write_text(generated(lines, sources), encoding="utf-8")
        arguments.append(f"{name}={system / 'test.log'}")
    score(folder, *arguments, preset=preset)
    return folder


def score(folder: Path, *generated: str, preset: str) -> None:
    """Score as a recipe does, with few resamples."""
    options = ["--resamples", "20", "--trials", "20", "--quiet", "--tokenize", "none", "--overwrite"]
    files = ["--src", str(folder / "text" / "test.src"), "--ref", str(folder / "text" / "test.tgt")]
    status = evaluate(
        ["--generated", *generated, *files, "--preset", preset, *options, "--json", str(folder / "test.json")]
    )
    assert status == 0
