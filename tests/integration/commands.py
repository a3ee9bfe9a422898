"""Run the real commands in tests, and create small data for them."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import wean_fairseq
from tests.integration import warm
from tests.integration.warm import ENVIRONMENT

wean_fairseq.register()  # lets the safe loader read arrays, which --eval-bleu stores

ROOT = Path(__file__).resolve().parents[2]
USER_DIR = str(ROOT / "wean_fairseq")
# Folder of the commands in the environment that runs the tests. The folder does not depend on PATH.
BIN = Path(sys.executable).parent
TIMEOUT = 900

# Half of the words stay the same in the paraphrase, and half become their synonym.
KEPT = [f"kept{number}" for number in range(16)]
SYNONYMS = {f"said{number}": f"told{number}" for number in range(12)}

TINY = ["--embed-dim", "16", "--hidden-size", "16", "--encoder-layers", "1", "--decoder-layers", "1"]
TASK = ["--task", "paraphrase"]
WEAN = ["--user-dir", USER_DIR, "--arch", "wean_lstm", "--criterion", "query_embedding"]
# Disable fairseq's data buffer. The thread of this buffer can abort the process when --max-update ends the training.
ADAM = ["--optimizer", "adam", "--batch-size", "32", "--seed", "1", "--cpu", "--log-format", "json"]
ADAM += ["--data-buffer-size", "0"]
# Starting processes that load the data takes a third of the time of a short command. Only the tests of recipes and of
# killed trainings use such processes.
IN_ONE = ["--num-workers", "0"]


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    arguments: list[str]
    code: int
    out: str
    err: str

    def describe(self) -> str:
        """Return everything that the message of a failed assertion should show."""
        return f"{' '.join(self.arguments)}\nexit status {self.code}\n{self.out[-3000:]}\n{self.err[-6000:]}"

    @property
    def hypotheses(self) -> dict[int, str]:
        """Return the best hypothesis by sentence number, from the output of a command of fairseq."""
        return {number: text for number, _, text in self.scored_hypotheses}

    @property
    def scored_hypotheses(self) -> list[tuple[int, float, str]]:
        """Return the number, score and text in each H line, sorted by sentence."""
        found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", self.out, flags=re.MULTILINE)
        return sorted((int(number), float(score), text) for number, score, text in found)

    def logged(self, key: str) -> list[float]:
        """Return the values of ``key`` in the JSON log of a training, in order."""
        return [float(value) for value in re.findall(rf'"{key}": "([^"]+)"', self.out + self.err)]


def search_path(*folders: Path) -> str:
    """Return PATH for a script.

    The order is ``folders``, the commands of ``warm``, those of this environment, and the user's PATH.
    """
    return os.pathsep.join(map(str, (*folders, warm.programs(), BIN, ENVIRONMENT["PATH"])))


def command_line(name: str, *arguments: object) -> list[str]:
    """Return the command ``name`` of this environment with its arguments."""
    return [str(BIN / name), *map(str, arguments)]


def run(
    name: str,
    *arguments: object,
    stdin: str = "",
    cwd: Path | None = None,
    expect_success: bool = True,
    prepare: Callable[[], object] = dict,
) -> Result:
    """Run a command to its end.

    Args:
        name: name of the command, such as ``fairseq-train``.
        arguments: arguments of the command.
        stdin: text for standard input.
        cwd: working directory.
        expect_success: fail the test with the complete output if the command exits with an error.
        prepare: function that the process calls before a command of ``warm``, see ``warm.run``.
    """
    line = command_line(name, *arguments)
    if name in warm.COMMANDS:
        result = Result(line, *warm.run(line, stdin, cwd, ENVIRONMENT, TIMEOUT, prepare))
    else:
        done = subprocess.run(
            line, input=stdin, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        result = Result(line, done.returncode, done.stdout, done.stderr)
    assert not (expect_success and result.code), result.describe()
    return result


def plugged(name: str, *arguments: object, prepare: Callable[[], object] = dict) -> Result:
    """Run the command ``name`` of fairseq with the plugin. The test does not fail if the command fails."""
    return run(f"fairseq-{name}", *arguments, "--user-dir", USER_DIR, expect_success=False, prepare=prepare)


def train(data: Path, save_dir: Path, *arguments: object, model: list[str] | None = None, **kwargs: object) -> Result:
    """Run fairseq-train with a tiny WEAN, or with the arguments in ``model`` if they are given."""
    chosen = [*WEAN, *TINY, *TASK] if model is None else model
    return run("fairseq-train", data, *chosen, *ADAM, *IN_ONE, "--save-dir", save_dir, *arguments, **kwargs)


def generate(data: Path, checkpoint: Path, *arguments: object, task: str = "paraphrase", **kwargs: object) -> Result:
    """Run fairseq-generate for any task on all sentences of the test split."""
    return run(
        *("fairseq-generate", data, "--user-dir", USER_DIR, "--task", task, "--path", checkpoint, "--cpu", *IN_ONE),
        *("--batch-size", "16", "--beam", "3", "--max-len-a", "1", "--max-len-b", "4", *arguments),
        **kwargs,
    )


def parameters(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the parameters in a checkpoint, which is read with the safe loader."""
    return torch.load(checkpoint, weights_only=True)["model"]


def needed_globals(checkpoint: Path) -> set[str]:
    """Return the types that a checkpoint needs besides tensors and plain containers.

    If there are none, a safe loader accepts the checkpoint.
    """
    allowed = torch.serialization.get_safe_globals()  # types that the plugin has allowed, if it has been imported here
    torch.serialization.clear_safe_globals()
    try:
        return set(torch.serialization.get_unsafe_globals_in_checkpoint(checkpoint))
    finally:
        torch.serialization.add_safe_globals(allowed)


def paraphrase(sentence: str) -> str:
    """Return the correct output for a sentence: every word that has a synonym becomes its synonym."""
    return " ".join(SYNONYMS.get(word, word) for word in sentence.split())


def random_sentences(number: int, seed: int, longest: int = 8) -> list[str]:
    """Return sentences of 3 to ``longest`` words."""
    chance = random.Random(seed)
    words = [*KEPT, *SYNONYMS]
    return [" ".join(chance.choices(words, k=chance.randint(3, longest))) for _ in range(number)]


def with_names(sentences: list[str], seed: int) -> list[str]:
    """Replace one word in every third sentence by a name. Each name occurs only once, so that it becomes ``<unk>``."""
    chance = random.Random(seed)
    named = []
    for number, sentence in enumerate(sentences):
        words = sentence.split()
        if number % 3 == 0:
            words[chance.randrange(len(words))] = f"Name{seed}x{number}"
        named.append(" ".join(words))
    return named


def write_pairs(prefix: Path, sources: list[str], targets: list[str] | None = None) -> None:
    """Write ``prefix``.src and ``prefix``.tgt. By default, the targets are the paraphrases of the sources."""
    targets = [paraphrase(sentence) for sentence in sources] if targets is None else targets
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(prefix.name + ".src").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    prefix.with_name(prefix.name + ".tgt").write_text("".join(f"{line}\n" for line in targets), encoding="utf-8")


def preprocess(text: Path, data: Path, *arguments: object) -> Result:
    """Run fairseq-preprocess on the splits in ``text``, with one joint dictionary."""
    splits = [
        (f"--{split}pref", text / split) for split in ("train", "valid", "test") if (text / f"{split}.src").exists()
    ]
    return run(
        *("fairseq-preprocess", "--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"),
        *(part for pair in splits for part in pair),
        *("--destdir", data, "--workers", "1", *arguments),
    )
