"""Task ``paraphrase``: fairseq's translation task for sentence pairs in one language.

It drops no pair unless an option allows it.
"""

import itertools
import logging
from dataclasses import dataclass
from typing import Any, ClassVar, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import register_task
from omegaconf import II

from ..capabilities import capabilities_of, reads_inputs
from ..data.extended_vocabulary import DEFAULT_SLOTS, ExtendedDictionary, SlotMap
from ..data.extra_inputs import ExtraInputs
from ..data.input_kinds import PAIR_INPUTS, PairInputsConfig
from ..data.pairs import LENGTH_POLICIES, PairLimits, check_data_dir, check_pairs, is_raw_text, limit_pairs
from ..data.typed_text import check_constraints, unknown_words_sentence
from ..errors import UserError
from ..fields import check_values, option, start_files
from ..host.options import check_batches, check_model, check_task
from ..modules import base_ids
from ..ranges import flag
from ..search.output_writer import OutputWriter, describe_granularity, describe_provenance
from ..search.traces import follow, has_traces
from .epoch_batches import AnnouncedBatches
from .guarded import NO_TARGETS, WRITTEN
from .searching import SearchingConfig, SearchingTask

logger = logging.getLogger(__name__)


@dataclass
class PairsConfig(SearchingConfig):
    """Options of the translation task, and further options for sentence pairs."""

    max_pair_length: int = option(
        0, "maximum words per side (without </s>); see --length-policy; 0 = no limit", least=0
    )
    length_policy: ChoiceEnum(LENGTH_POLICIES) = option(  # type: ignore[valid-type]
        "drop",
        "for pairs longer than --max-pair-length: drop = leave them out of training (WEAN's first release); "
        "truncate = truncate training pairs and all sources (its second release)",
    )
    no_source_end: bool = option(
        False, "remove the end symbol from the sources, as the releases of WEAN and CopyNet do"
    )
    keep_empty_lines: bool = option(False, "accept empty lines instead of refusing the data")
    rebuild_batches: bool = option(
        True,
        "this flag DISABLES building each epoch's batches from its own seed, which makes a resumed run use the same "
        "batches",
    )
    oov_slots: int = option(
        -1,
        "distinct words outside the dictionary that a model can copy from one source; "
        f"-1 = {DEFAULT_SLOTS} with an arch that copies, else 0",
        least=-1,
        most=100_000,
    )
    copy_fold_case: bool = option(False, "treat unknown words that differ only in case as one word when copying")
    copy_provenance: Optional[str] = option(  # `Optional`, because fairseq cannot read `str | None`
        None, "JSON lines file to write: for each output word, whether and from which position it was copied"
    )
    granularity_dump: Optional[str] = option(
        None, "JSON lines file to write: the granularity of each word in every layer (C-DNPG)"
    )
    # fairseq's default of -1 fails on data that consists of several parts (train, train1, ...).
    upsample_primary: int = option(1, "number of repetitions of the first part of the data", least=1)
    # Two options of fairseq-generate that fairseq does not pass to the iterator.
    num_shards: int = II("dataset.num_shards")
    shard_id: int = II("dataset.shard_id")


@dataclass
class ParaphraseConfig(PairInputsConfig, PairsConfig):
    """Options of the task and of its extra inputs."""


@register_task("paraphrase", dataclass=ParaphraseConfig)
class ParaphraseTask(SearchingTask):
    """A task for sentence pairs.

    It drops no sentence unless an option allows it, creates the same batches after a restart, and names the file when
    it rejects data.
    """

    cfg: PairsConfig
    input_kinds: ClassVar[tuple[type[ExtraInputs], ...]] = PAIR_INPUTS

    def __init__(self, cfg: PairsConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        source = ExtendedDictionary(src_dict, cfg.copy_fold_case)
        joined = src_dict == tgt_dict
        super().__init__(cfg, source, source if joined else ExtendedDictionary(tgt_dict))
        kinds = (kind for kind in self.input_kinds if getattr(cfg, kind.option) is not None)
        self.extra_inputs = [kind(cfg, source) for kind in kinds]
        for inputs in self.extra_inputs:
            self.__dict__.update(inputs.attributes)
        self._model_slots: int | None = None  # number of slots of the models built so far
        self.typed = range(0)  # data set of the lines that fairseq-interactive has read last
        self._typed_pairs: FairseqDataset | None = None  # numbers of the lines that fairseq-interactive has read last
        # ids of the current batch, which fairseq-interactive does not pass to the task
        self._typed_numbers: torch.Tensor | None = None
        self._unknown_words: list[str] = []  # the warning about unknown words, which copies of the task share
        dumps = (
            (cfg.copy_provenance, "--copy-provenance", describe_provenance),
            (cfg.granularity_dump, "--granularity-dump", describe_granularity),
        )
        self._writers = [OutputWriter(path, option, describe) for path, option, describe in dumps if path is not None]

    @property
    def limits(self) -> PairLimits:
        """The length limits that the options set."""
        return PairLimits(self.cfg.max_pair_length, str(self.cfg.length_policy))

    @classmethod
    def setup_task(cls, cfg: PairsConfig, **kwargs: Any) -> "ParaphraseTask":
        """Load the dictionaries.

        Raises:
            UserError: if the data directory or a dictionary is missing, or if options contradict each other.
        """
        check_data_dir(cfg.data, cfg.source_lang, cfg.target_lang)
        check_values(PairsConfig, cfg)
        check_task(cfg)
        if str(cfg.length_policy) == "truncate" and not cfg.max_pair_length:
            raise UserError("--length-policy truncate needs --max-pair-length, the number of words to keep.")
        if cfg.no_source_end and cfg.keep_empty_lines:
            raise UserError("--no-source-end leaves an empty line without tokens: leave it out, or --keep-empty-lines.")
        for kind in cls.input_kinds:
            kind.check(cfg)
        if cfg.dataset_impl is None and is_raw_text(cfg.data):
            cfg.dataset_impl = "raw"  # fairseq detects its binary formats, but does not detect text
        return super().setup_task(cfg, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> torch.nn.Module:
        """Build the model. If it copies, add slots for unknown source words to the dictionary.

        Raises:
            UserError: if the model cannot be built for this data.
        """
        # Contradictions between arch, options and data are reported here, before memory is allocated for the model.
        # fairseq would fail later, in the middle of a batch.
        check_model(cfg)
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
        model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
        copies = capabilities_of(model).copies
        slots = self.cfg.oov_slots
        if slots < 0:
            slots = DEFAULT_SLOTS if copies else 0
        given = {"oov_slots": slots > 0, "copy_provenance": self.cfg.copy_provenance is not None}
        given["copy_fold_case"] = self.cfg.copy_fold_case and not from_checkpoint  # earlier versions ignored it
        unused = [flag(option_name) for option_name, is_given in given.items() if is_given and not copies]
        if unused:
            raise UserError(f"{unused[0]} is for archs that copy words, and {name} does not: leave it out.")
        if slots and self.source_dictionary is not self.target_dictionary:
            raise UserError(
                f"{name} copies words from the source to the target, but the data has two dictionaries: "
                "run fairseq-preprocess again with --joined-dictionary."
            )
        if self._model_slots not in (None, slots):
            raise UserError("an ensemble is of archs that copy words or of archs that do not: --path has both.")
        self._model_slots = slots
        # The size of the output layer comes from the dictionary, so the slots must be added before the model is built.
        self.source_dictionary.reserve_slots(slots)
        if from_checkpoint:  # the checkpoint contains the values of these files, and the files may no longer exist
            for file in start_files():
                if getattr(cfg, file, None):
                    setattr(cfg, file, None)
        for inputs in self.extra_inputs:
            if inputs.are_required and not reads_inputs(model, inputs.names):
                archs = (arch for arch, kind in ARCH_MODEL_REGISTRY.items() if reads_inputs(kind, inputs.names))
                raise UserError(
                    f"{flag(inputs.option)} is for archs that read its features, and {name} does not: leave it out, "
                    f"or choose from {', '.join(sorted(archs))}."
                )
        built: torch.nn.Module = super().build_model(cfg, from_checkpoint)
        if self.cfg.granularity_dump is not None and not capabilities_of(built).granular_from:
            raise UserError(
                f"--granularity-dump is for models whose words have a granularity, and this {name} has none: leave it "
                "out."
            )
        return built

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the criterion, which only trainings and validations have.

        Raises:
            UserError: if it cannot be used with slots, or if an option names an output of the search.
        """
        for name in WRITTEN:
            if getattr(self.cfg, name) is not None:
                raise UserError(f"{flag(name)} is for fairseq-generate and fairseq-interactive: leave it out.")
        if self.target_dictionary.num_slots and getattr(cfg, "_name", None) == "label_smoothed_cross_entropy":
            raise UserError(
                "--criterion label_smoothed_cross_entropy spreads probability over slots that a sentence does not use, "
                "where it is infinite: use --criterion model_loss --label-smoothing."
            )
        return super().build_criterion(cfg, from_checkpoint)

    def filter_indices_by_size(
        self, indices: Any, dataset: FairseqDataset, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        """Remove sentences that are too long, like fairseq, if the options allow this.

        Raises:
            UserError: if a sentence is too long and the options do not allow its removal.
        """
        if not ignore_invalid_inputs:
            _, too_long = dataset.filter_indices_by_size(indices, max_positions)
            if too_long:
                number = self.typed.start + too_long[0]
                size = tuple(map(int, dataset.size(too_long[0])))
                raise UserError(
                    f"{len(too_long)} sentence(s) are longer than this model takes ({max_positions} tokens, end symbol "
                    f"included), first number {number} with {size}: shorten them, or give "
                    "--length-policy truncate --max-pair-length N, or --skip-invalid-size-inputs-valid-test."
                )
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

    def train_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Run fairseq's training step. Unknown words of the batch become slots."""
        mapped, _ = self.map_slots(sample)
        if kwargs.get("ignore_grad"):
            # fairseq gives a validation batch to a process that has no training batch.
            for inputs in self.extra_inputs:
                mapped = inputs.fill(mapped)
        return super().train_step(mapped, *args, **kwargs)

    def valid_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Run fairseq's validation step. Unknown words of the batch become slots."""
        mapped, _ = self.map_slots(sample)
        return super().valid_step(mapped | {"spelt": sample}, *args, **kwargs)

    def _inference_with_bleu(self, generator: Any, sample: dict[str, Any], model: torch.nn.Module) -> Any:
        return super()._inference_with_bleu(generator, sample["spelt"], model)

    def inference_step(
        self,
        generator: Any,
        models: list[torch.nn.Module],
        sample: dict[str, Any],
        prefix_tokens: torch.Tensor | None = None,
        constraints: torch.Tensor | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Run the search. In its results, words that were copied through slots are real words.

        Raises:
            UserError: if the search needs constraints and there are none, or if a forced prefix contains a word that
                the models cannot write.
        """
        if constraints is None and getattr(generator, "search", None) and generator.search.supports_constraints:
            raise UserError(
                "--constraints is for fairseq-interactive, which reads them from its input lines: leave it out."
            )
        mapped, slot_map = self.map_slots(sample)
        if "id" not in sample:
            sample = {**sample, "id": self._typed_numbers}
        if prefix_tokens is not None:
            prefix_tokens = self._writable(slot_map.slots(prefix_tokens), models)
        generator.traces = bool(self._writers) or getattr(generator, "traces", False)
        finalized = super().inference_step(generator, models, mapped, prefix_tokens, constraints)
        untraced = any("trace" not in hypothesis for hypotheses in finalized for hypothesis in hypotheses)
        if generator.traces and untraced and has_traces(models[0]):
            follow(models[0], mapped, finalized)
        numbered = [(row, hypothesis) for row, hypotheses in enumerate(finalized) for hypothesis in hypotheses]
        outputs = slot_map.spell_all([(row, hypothesis["tokens"]) for row, hypothesis in numbered])
        for (_, hypothesis), words in zip(numbered, outputs, strict=True):
            hypothesis["tokens"] = words
        for writer in self._writers:
            writer.write(sample, finalized, self.source_dictionary, self.target_dictionary)
        return finalized

    def _writable(self, prefix_tokens: torch.Tensor, models: list[torch.nn.Module]) -> torch.Tensor:
        """Return forced prefixes (B, T) that ``models`` can write. fairseq would fail on words with probability 0."""
        dictionary = self.target_dictionary
        if not any(capabilities_of(model).copies for model in models):
            prefix_tokens = base_ids(prefix_tokens, dictionary.first_slot, dictionary.unk())
        if str(self.cfg.search_preset) == "copynet" and prefix_tokens.eq(dictionary.unk()).any():
            raise UserError(
                "--prefix-size forces an output to begin with a word that is neither in the dictionary nor copied, and "
                "--search-preset copynet never writes <unk>: use --search-preset fairseq, or a smaller --prefix-size."
            )
        return prefix_tokens

    def map_slots(self, sample: dict[str, Any]) -> tuple[dict[str, Any], SlotMap]:
        """Return the batch with slots for unknown words, as models read it, and the words that the slots represent.

        The batch is a copy, so that callers can still print the words of the original batch.
        """
        for inputs in self.extra_inputs:
            sample = inputs.complete(sample)
        net_input = dict(sample["net_input"])
        slot_map = SlotMap(self.source_dictionary, self.target_dictionary, net_input["src_tokens"])
        net_input["src_tokens"] = slot_map.src_tokens
        mapped = {**sample, "net_input": net_input}
        for holder, name in ((net_input, "prev_output_tokens"), (mapped, "target")):
            if holder.get(name) is not None:
                holder[name] = slot_map.slots(holder[name])
        return mapped, slot_map

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load and check a split.

        Raises:
            UserError: if it is missing, its sides have different lengths, or it contains empty lines.
        """
        self.check_files(split, epoch, combine)
        self._check_split(split, epoch, combine)
        _warn_of_other_sources(kwargs.get("task_cfg"), self.limits, self.cfg.no_source_end)
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        self._warn_of_lost_spellings(split)
        pairs = self.datasets[split]
        training = split == self.cfg.train_subset
        # only the commands that load a checkpoint give task_cfg, and some of them need no target sentences
        if pairs.tgt is None and "task_cfg" not in kwargs and (training or split.startswith("valid")):
            raise UserError(NO_TARGETS.format(f"split {split!r} in {self.folder_of(split, epoch)}"))
        limited = limit_pairs(pairs, self.limits, training)
        limited.remove_eos_from_source = self.cfg.no_source_end
        self.datasets[split] = limited
        self.check_dataset(split)
        for inputs in self.extra_inputs:
            self.datasets[split] = inputs.extend(split, self.datasets[split], pairs, training)

    def check_dataset(self, split: str) -> None:
        """Check the content of a loaded split. Raise ``UserError`` if it is invalid."""

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Pass the epoch to the model, because its loss may follow a schedule."""
        super().begin_epoch(epoch, model)
        model.set_epoch(epoch)

    def _warn_of_lost_spellings(self, split: str) -> None:
        """Warn if a model that copies gets binary data, which replaces unknown words by ``<unk>``."""
        if not self.source_dictionary.num_slots or str(self.cfg.dataset_impl) == "raw":
            return
        sources = self.datasets[split].src
        if any(sources[index].eq(self.source_dictionary.unk()).any() for index in range(min(1000, len(sources)))):
            logger.warning(
                f"{split} is binary data, which forgets how unknown words are spelt, so that they cannot be copied: "
                "run fairseq-preprocess again with --dataset-impl raw"
            )

    def _check_split(self, split: str, epoch: int, combine: bool) -> None:
        folder = self.folder_of(split, epoch)
        source, target = self.cfg.source_lang, self.cfg.target_lang
        pairs = [f"{source}-{target}", f"{target}-{source}"]
        impl = None if self.cfg.dataset_impl is None else str(self.cfg.dataset_impl)
        num_parts = 0
        for number in itertools.count():  # train, train1, train2, ... if parts are combined
            part = f"{split}{number or ''}"
            prefixes = [f"{part}.{pair}" for pair in pairs if any(folder.glob(f"{part}.{pair}.{source}*"))]
            if prefixes:
                check_pairs(str(folder / prefixes[0]), self.sides, impl, self.cfg.keep_empty_lines)
                num_parts += 1
            if not prefixes or not combine:
                break
        if not num_parts:
            names = [path.name for pair in pairs for path in folder.glob(f"*.{pair}.*")]
            splits = sorted({name.split(".")[0] for name in names})
            raise UserError(
                f"{folder} has no split {split!r} of {source} -> {target}; it has {', '.join(splits) or 'none at all'}."
            )

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **kwargs: Any) -> Any:
        """Return fairseq's batches. ``--length-policy drop`` is applied to training data.

        fairseq drops the last batch of a data set whose size is not a multiple of --required-batch-size-multiple. This
        task drops no batch.

        Raises:
            UserError: if a sentence has more tokens than --max-tokens allows for a whole batch.
        """
        kwargs |= self._shard(dataset, kwargs)
        check_batches(kwargs)
        kwargs["required_batch_size_multiple"] = 1
        training = dataset is self.datasets.get(self.cfg.train_subset) and kwargs.get("ignore_invalid_inputs", False)
        if self.limits.drops and training:
            logger.info(f"pairs with more than {self.limits.length} words on a side are left out of training")
            max_length = self.limits.length + 1  # the end symbol counts as a position
            kwargs["max_positions"] = tuple(
                min(max_length, limit) for limit in kwargs.get("max_positions") or (max_length, max_length)
            )
        _check_batch_size(dataset, kwargs.get("max_tokens"), kwargs.get("max_positions"))
        batches = super().get_batch_iterator(dataset, *args, **kwargs)
        if training and batches.shard_id == 0 and batches.frozen_batches:
            source, target = batches.padding(not self.cfg.no_source_end, self.cfg.required_seq_len_multiple)
            logger.info(
                f"{len(batches.frozen_batches):,} batches an epoch; padding takes {source:.1%} of the positions of "
                f"source sentences and {target:.1%} of target sentences"
            )
        return AnnouncedBatches(batches, self._set_typed_numbers) if dataset is self._typed_pairs else batches

    def _shard(self, dataset: FairseqDataset, iterator_options: dict[str, Any]) -> dict[str, int]:
        """Return the part of the data to decode: the shard ``--shard-id``, divided among the processes.

        Raises:
            UserError: for input of fairseq-interactive, which cannot be divided.
        """
        shards, shard = getattr(self.cfg, "num_shards", 1), getattr(self.cfg, "shard_id", 0)
        if (shards, shard) == (1, 0):
            return {}
        if dataset is self._typed_pairs:
            raise UserError("--num-shards and --shard-id are for fairseq-generate: leave them out.")
        check_batches({"num_shards": shards, "shard_id": shard})
        processes, rank = iterator_options.get("num_shards", 1), iterator_options.get("shard_id", 0)
        return {"num_shards": shards * processes, "shard_id": shard * processes + rank}

    def build_dataset_for_inference(
        self, src_tokens: list[torch.Tensor], src_lengths: list[int], constraints: torch.Tensor | None = None
    ) -> FairseqDataset:
        """Return a data set with the sentences that fairseq-interactive has read.

        Raises:
            UserError: if a constraint has no word or a word that is not in the dictionary, or there are too many.
        """
        if constraints is not None:
            check_constraints(constraints, self.target_dictionary, self.typed.stop + 1)
        self.typed = range(self.typed.stop, self.typed.stop + len(src_tokens))
        if not self._unknown_words and (sentence := unknown_words_sentence(src_tokens, self.source_dictionary)):
            self._unknown_words.append(sentence)
            logger.warning(sentence)
        if self.limits.truncates:
            end = torch.tensor([self.source_dictionary.eos()])
            src_tokens = [torch.cat([words[:-1][: self.limits.length], end]) for words in src_tokens]
        if self.cfg.no_source_end:
            # an empty line consists only of its end symbol
            src_tokens = [words[:-1] if len(words) > 1 else words for words in src_tokens]
        src_lengths = [len(words) for words in src_tokens]
        self._typed_pairs = super().build_dataset_for_inference(src_tokens, src_lengths, constraints=constraints)
        return self._typed_pairs

    def _set_typed_numbers(self, batch: dict[str, Any]) -> None:
        self._typed_numbers = batch["id"] + self.typed.start


def _check_batch_size(dataset: FairseqDataset, max_tokens: int | None, max_positions: Any) -> None:
    """Reject a sentence that is larger than a batch. fairseq would fail with a traceback."""
    if not max_tokens:
        return
    # sentences that do not fit the model are dropped or rejected elsewhere
    fits, _ = dataset.filter_indices_by_size(np.arange(len(dataset)), max_positions)
    longest = max((int(dataset.num_tokens(index)) for index in fits), default=0)
    if longest > max_tokens:
        raise UserError(
            f"--max-tokens {max_tokens} is the size of a batch, but a sentence has {longest} tokens: "
            "raise it, or leave longer sentences out."
        )


def _warn_of_other_sources(saved: PairsConfig | None, limits: PairLimits, no_source_end: bool) -> None:
    """Warn if the options for reading sources differ from those of the training."""
    trained = PairLimits(getattr(saved, "max_pair_length", 0), str(getattr(saved, "length_policy", "drop")))
    if trained.truncates and trained != limits:
        logger.warning(
            f"the model was trained with --length-policy truncate --max-pair-length {trained.length}; "
            "give both options here too, otherwise the sources are longer than in training"
        )
    if saved is not None and getattr(saved, "no_source_end", False) != no_source_end:
        logger.warning(
            f"the model was trained {'without' if no_source_end else 'with'} --no-source-end; do the same here, "
            "otherwise the sources end differently from training"
        )
