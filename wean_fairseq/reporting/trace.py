"""Lets a checkpoint write, and keeps what figures show of it: attention, copying, granularities, coverage of topics.

The model is loaded by fairseq, with this plugin's safe loader; its outputs are searched for by its own task, which also
writes the dumps of copy provenance and granularity, so that a figure of a checkpoint and one of a dump are the same.
"""

import copy
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.granularity import Sentence, read_dump
from wean_fairseq.reporting.dumps import Attention, Coverage, Provenance, read_provenance
from wean_fairseq.search.output_writer import read_words


class Loaded(NamedTuple):
    """A checkpoint, ready to write."""

    model: Any
    task: Any
    generator: Any


class _Recorder:
    """A generator that keeps the batch as the task hands it to the models: slots and topic features are in it."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.sample: dict[str, Any] = {}

    def generate(self, models: Sequence[Any], sample: dict[str, Any], **kwargs: Any) -> Any:
        """Search as the generator does."""
        self.sample = sample
        return self.generator.generate(models, sample, **kwargs)


def load(checkpoint: str, data: str, beam: int = 5, dumps: dict[str, str] | None = None, **options: Any) -> Loaded:
    """Load a checkpoint of fairseq-train.

    Args:
        checkpoint: its file.
        data: directory with the dictionaries of that training.
        beam: width of the search.
        dumps: options of the task that name files to write -> the files.
        options: of the task, in place of those it was trained with.

    Raises:
        UserError: if there is no such file or directory, or an option does not fit the model.
    """
    from fairseq import checkpoint_utils, tasks

    if not Path(checkpoint).is_file():
        raise UserError(f"there is no checkpoint {checkpoint}; give a checkpoint_best.pt of fairseq-train.")
    if not Path(data).is_dir():
        raise UserError(f"there is no directory {data}; give the data directory of the training with --data.")
    overrides = {"data": data, "dataset_impl": "raw", "eval_bleu": False, **options}
    state = checkpoint_utils.load_checkpoint_to_cpu(checkpoint, overrides)
    task = tasks.setup_task(state["cfg"].task, from_checkpoint=True)
    if dumps:  # a task from a checkpoint forgets where that one would write, so it is set up anew
        missing = [option for option in dumps if not hasattr(task.cfg, option)]
        if missing:
            raise UserError(f"the task of {checkpoint} has no {missing[0].replace('_', ' ')}; give another checkpoint.")
        for option, path in dumps.items():
            setattr(task.cfg, option, path)
        task = tasks.setup_task(task.cfg)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([checkpoint], task=task, state=state)
    search = Namespace(beam=beam, nbest=1, max_len_a=1.0, max_len_b=60)
    model = models[0].eval()
    return Loaded(model, task, task.build_generator([model], search))


def search(loaded: Loaded, lines: Sequence[str]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Search as fairseq-interactive does.

    Returns:
        Of every line the batch that the model read, as it is in the task, with the tokens as they are spelt as
        ``spelt`` (1, S), and the hypotheses, best first.

    Raises:
        UserError: if a line is empty, or not what the task takes.
    """
    empty = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if empty or not lines:
        raise UserError(f"line {empty[0] if empty else 1} of the text is empty; give a sentence a line.")
    dictionary = loaded.task.source_dictionary
    tokens = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    reader = copy.copy(loaded.task)  # it goes on counting lines, as one text is all that fairseq-interactive reads
    dataset = reader.build_dataset_for_inference(tokens, [len(line) for line in tokens])
    found = []
    for index in range(len(lines)):
        sample = dataset.collater([dataset[index]])
        recorder = _Recorder(loaded.generator)
        hypotheses = loaded.task.inference_step(recorder, [loaded.model], sample)[0]
        found.append(({**recorder.sample, "spelt": sample["net_input"]["src_tokens"]}, hypotheses))
    return found


def _write(loaded: Loaded, lines: Sequence[str]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Of every line the batch that the model read, and the best hypothesis."""
    return [(sample, hypotheses[0]) for sample, hypotheses in search(loaded, lines)]


def _words(tokens: Tensor, dictionary: Any) -> list[str]:
    """The words of tokens (T,)."""
    return [dictionary[index] for index in tokens.tolist()]


@torch.no_grad()
def attention(loaded: Loaded, lines: Sequence[str]) -> list[Attention]:
    """Attention of the best output of every line.

    Raises:
        UserError: if the model has none, or a line is empty.
    """
    found = []
    for sample, best in _write(loaded, lines):
        weights = best.get("attention")
        if weights is None or weights.numel() == 0:
            raise UserError("this model returns no attention, so there is none to draw; give another checkpoint.")
        source = _words(sample["spelt"][0], loaded.task.source_dictionary)
        output = _words(best["tokens"], loaded.task.target_dictionary)
        found.append(Attention(source, output, weights.float().t()[: len(output)].tolist()))
    return found


@torch.no_grad()
def coverage(loaded: Loaded, lines: Sequence[str]) -> list[Coverage]:
    """What is left of each topic after each word of the best text.

    C_t = 1 - sum_{i<=t} alpha_i / phi of MTA-LSTM (Feng et al., IJCAI 2018), or d_t of SC-LSTM.

    Raises:
        UserError: if the model keeps no count of its topics.
    """
    found = []
    for sample, best in _write(loaded, lines):
        net_input = {key: value for key, value in sample["net_input"].items() if key != "prev_output_tokens"}
        encoder_out = loaded.model.encoder(**net_input)
        _, extra = loaded.model.decoder.extract_features(read_words(best["tokens"]).unsqueeze(0), encoder_out)
        if "keywords" in extra:
            left, label = extra["keywords"][0], "d: how much of it is left to say"
        elif "topic_weights" in extra and encoder_out.get("importance") is not None:
            spent = extra["topic_weights"][0].cumsum(dim=0) / encoder_out["importance"][0]
            left, label = 1.0 - spent, "coverage C: how much is left"
        else:
            raise UserError("this model keeps no coverage of its topics: give a checkpoint of mta_lstm or sc_lstm.")
        topics = _words(sample["spelt"][0][:-1], loaded.task.source_dictionary)
        output = _words(best["tokens"], loaded.task.target_dictionary)
        found.append(Coverage(topics, output, left[:, : len(topics)].tolist(), label))
    return found


def provenance(checkpoint: str, data: str, lines: Sequence[str], beam: int = 5) -> list[Provenance]:
    """Where the words of the best output of every line came from: the task's own dump, read back.

    Raises:
        UserError: if the model does not copy, or a line is empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "provenance.jsonl")
        _write(load(checkpoint, data, beam, {"copy_provenance": str(path)}), lines)
        found = read_provenance(path)
    return [found[number] for number in sorted(found)]


def granularity(checkpoint: str, data: str, lines: Sequence[str], beam: int = 5) -> list[Sentence]:
    """The granularities of the words of every line: the task's own dump, read back.

    Raises:
        UserError: if the model's words have none, or a line is empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "granularity.jsonl")
        _write(load(checkpoint, data, beam, {"granularity_dump": str(path)}), lines)
        return read_dump(str(path))
