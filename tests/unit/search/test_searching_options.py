"""Test that the search of the task and ``--stock-search`` give the same outputs with all generation options."""

from argparse import Namespace
from itertools import combinations
from typing import Any

import pytest
import torch
from fairseq.dataclass.configs import CheckpointConfig, DatasetConfig, OptimizationConfig

from tests.copy_contract import BASE, SLOTS, copy_batch
from tests.model_contract import EOS, collate, make_dictionary
from tests.unit.search.test_fast_generator import WORDS, assert_same, make_model, make_sample
from wean_fairseq.errors import UserError
from wean_fairseq.host.options import check_model, check_task, check_training
from wean_fairseq.search import packed_linear
from wean_fairseq.storage.search import check_generation
from wean_fairseq.tasks.guarded import GuardedTask
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask
from wean_fairseq.tasks.searching import SearchingTask

# OPTIONS has options of fairseq-generate, and tells whether the faster search supports them.
OPTIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "nbest": ({"beam": 10, "nbest": 10}, True),
    "lenpen": ({"lenpen": 0.3}, True),
    "unnormalized": ({"unnormalized": True}, True),
    "unkpen": ({"unkpen": -2.0}, True),
    "min_len": ({"min_len": 6}, True),
    "max_len": ({"max_len_a": 1.5, "max_len_b": 1}, True),
    "replace_unk": ({"replace_unk": ""}, True),
    "match_source_len": ({"match_source_len": True}, False),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 2}, False),
    "sampling": ({"sampling": True}, False),
    "sampling_topk": ({"sampling": True, "sampling_topk": 3}, False),
    "sampling_topp": ({"sampling": True, "sampling_topp": 0.5}, False),
    "diverse_beam_groups": ({"beam": 6, "diverse_beam_groups": 3}, False),
    "diversity_rate": ({"diversity_rate": 0.5}, False),
    "prefix_allowed_tokens_fn": ({"prefix_allowed_tokens_fn": lambda _sentence, words: [EOS, 5 + len(words)]}, False),
}


def paraphrase_task(words: int = WORDS, slots: int = 0, **options: Any) -> ParaphraseTask:
    config = ParaphraseConfig(data="", source_lang="src", target_lang="tgt", **options)
    task = ParaphraseTask(config, *[make_dictionary(words)] * 2)
    task.source_dictionary.reserve_slots(slots)
    return task


def search(task: ParaphraseTask, models: list[torch.nn.Module], sample: dict[str, Any], **options: Any) -> Any:
    """Return the hypotheses, and whether they come from the faster search."""
    generator = task.build_generator(models, Namespace(**{"max_len_b": 12} | options))
    torch.manual_seed(7)  # some of the options draw random numbers
    return generator.generate(models, sample), getattr(generator, "is_fast", False)


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("arch", ["wean_lstm", "copynet", "copy_transformer"])
def test_an_option_does_the_same_with_either_search(arch, case):
    options, wants_fast = OPTIONS[case]
    copies = arch != "wean_lstm"
    task = paraphrase_task(BASE - 4, SLOTS) if copies else paraphrase_task()
    model = make_model(arch, {}, task)
    sample = make_sample(model, copy_batch() if copies else None)
    found, is_fast = search(task, [model], sample, **options)
    task.cfg.stock_search = True
    expected, never = search(task, [model], sample, **options)
    assert (is_fast, never) == (wants_fast, False)
    assert_same(found, expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [list(one["alignment"]) for one in ours] == [list(one["alignment"]) for one in theirs]


def search_with_likely_padding(arch: str, count: int, settings: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """Return the hypotheses and their words. The four last entries of the dictionary are the likeliest words."""
    dictionary = make_dictionary(40)
    for number in range(4):
        dictionary.add_symbol(f"madeupword{number:04d}", n=count)
    task = ParaphraseTask(
        ParaphraseConfig(data="", source_lang="src", target_lang="tgt", **settings), *[dictionary] * 2
    )
    task.source_dictionary.reserve_slots(SLOTS if arch == "copy_transformer" else 0)
    model = make_model(arch, {}, task)
    with torch.no_grad():
        model.decoder.output.bias[44:48] += 8
    sources = [torch.tensor([5, 9, 4, EOS]), torch.tensor([20, 45, 46, 11, EOS])]
    found, _ = search(task, [model], make_sample(model, collate(sources, sources)), **options)
    return found, [dictionary[index] for row in found for one in row for index in one["tokens"].tolist() if index < 48]


@pytest.mark.parametrize("settings", [{}, {"stock_search": True}, {"search_preset": "cdnpg-sampling"}])
@pytest.mark.parametrize("arch", ["paraphrase_transformer", "copy_transformer"])
def test_padding_of_the_dictionary_is_never_written(arch, settings):
    """An entry that looks like padding but has a count is a word, which both searches write often."""
    cases = [options for options, _ in OPTIONS.values()] if "search_preset" not in settings else [{"beam": 4}]
    for options in cases:
        _, words = search_with_likely_padding(arch, 0, settings, **options)
        assert words and not any(word.startswith("madeupword") for word in words), options
    _, words = search_with_likely_padding(arch, 1, settings)
    assert sum(word.startswith("madeupword") for word in words) > len(words) / 5


def test_a_temperature_at_which_no_word_can_be_drawn_is_named():
    """The end symbol is 8 nats likelier. It may not be the first word, and exp(-800) is 0 in float32."""
    task = paraphrase_task()
    model = make_model("paraphrase_transformer", {}, task)
    with torch.no_grad():
        model.decoder.output.bias[EOS] += 8
    search(task, [model], make_sample(model), sampling=True, temperature=0.5)
    with pytest.raises(UserError, match=r"at --temperature 0.01 all words to draw have the probability 0"):
        search(task, [model], make_sample(model), sampling=True, temperature=0.01)


def test_scores_are_not_changed_by_padding_that_is_not_written():
    """The expected log-probabilities are normalised over all dictionary entries.

    The probability of padding must not be distributed to the words.
    """
    scores = {}
    for count, options in ((0, {"max_len_b": 1, "beam": 30}), (1, {"max_len_b": 1, "beam": 40})):
        found, _ = search_with_likely_padding(
            "paraphrase_transformer", count, {"stock_search": count == 1}, nbest=1, **options
        )
        scores[count] = {tuple(one["tokens"].tolist()): one["positional_scores"] for one in found[0]}
    assert len(scores[0]) == 30
    for tokens, of_words in scores[0].items():
        torch.testing.assert_close(of_words, scores[1][tokens], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("wean_lstm", {"prefix_size": 1}),
        ("wean_lstm", {"beam": 120}),
        ("wean_lstm", {"no_repeat_ngram_size": 2}),
        ("copynet", {"temperature": 1.5}),
    ],
)
def test_rounded_scores_are_refused_where_fairseqs_loop_would_search(arch, options):
    """fairseq's loop ignores the option for rounded scores."""
    task = paraphrase_task(bf16_scores=True)
    model = make_model(arch, {}, task)
    assert task.build_generator([model], Namespace()).is_fast
    with pytest.raises(UserError, match="--bf16-scores is for plain beam search"):
        task.build_generator([model], Namespace(**options))


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"stock_search": True}, {}),
        ({"search_preset": "wean"}, {}),
        ({"search_preset": "copynet"}, {}),
        ({}, {"no_repeat_ngram_size": 2}),
        ({}, {"sampling": True}),
    ],
)
def test_a_search_that_cannot_rank_by_distraction_says_so(settings, options):
    """The search must neither ignore distraction nor use a stopping rule that is invalid with distraction."""
    model = make_model("rnn_distract", {"distract_content": 0.5})
    with pytest.raises(UserError, match="--distract-state are for plain beam search with one model"):
        search(paraphrase_task(**settings), [model], make_sample(model), **options)
    found, is_fast = search(paraphrase_task(), [model], make_sample(model))
    assert is_fast and found


@pytest.mark.parametrize("lenpen", [1e308, 101, -101, float("nan")])
def test_a_length_penalty_at_which_scores_overflow_is_refused(lenpen):
    task = paraphrase_task()
    with pytest.raises(UserError, match="--lenpen must be"):
        task.build_generator([make_model("wean_lstm", {}, task)], Namespace(lenpen=lenpen))


def test_a_model_of_pairs_is_no_language_model():
    """fairseq-generate --lm-path loads any model, and calls it with the outputs alone."""
    task = paraphrase_task()
    model = make_model("wean_lstm", {}, task)
    task.build_generator([model], Namespace(), extra_gen_cls_kwargs={"lm_model": None, "lm_weight": 0.0})
    with pytest.raises(UserError, match="--lm-path is not a language model: give one that was trained with this"):
        task.build_generator([model], Namespace(), extra_gen_cls_kwargs={"lm_model": model, "lm_weight": 1.0})


def test_dropout_cannot_be_retained():
    """The modules of this package are not fairseq's, which fairseq-generate asks to retain their dropout."""
    task = paraphrase_task()
    with pytest.raises(UserError, match="--retain-dropout is for fairseq's own archs and has no effect here"):
        task.build_generator([make_model("wean_lstm", {}, task)], Namespace(retain_dropout=True))


def test_a_number_of_layers_that_would_take_hours_to_build_is_refused():
    with pytest.raises(UserError, match="--encoder-layers must be from 0 to 1000, but is 10000000"):
        check_model(Namespace(encoder_layers=10**7))


def test_a_training_step_frees_the_weights_that_the_last_validation_packed(monkeypatch):
    task, model, packed = paraphrase_task(), make_model("wean_lstm", {}), []
    pack = packed_linear.pack
    monkeypatch.setattr(packed_linear, "pack", lambda weight, rows: packed.append(len(weight)) or pack(weight, rows))
    monkeypatch.setattr(GuardedTask, "train_step", lambda task, sample: (torch.tensor(1.0), 1, {}))
    task.sequence_generator = task.build_generator([model], Namespace(max_len_b=12))
    sample = make_sample(model)
    for _ in range(2):
        task.sequence_generator.generate([model], sample)
    assert sum(packed) == WORDS + 4  # packed once, because the second search uses the same weights
    SearchingTask.train_step(task, sample)
    task.sequence_generator.generate([model], sample)
    assert sum(packed) == 2 * (WORDS + 4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_len_b": 10**9}, "--max-len-b must be from 0 to 10000, but is 1000000000"),
        ({"max_len_a": 1e9}, "--max-len-a must be from 0 to 100"),
        ({"max_len_a": float("inf")}, "--max-len-a must be from 0 to 100"),
        ({"beam": -1}, "--beam must be from 1 to 2147483647, but is -1"),
        ({"beam": "x"}, "--beam must be from 1 to 2147483647, but is x"),
        ({"beam": 2**40}, "--beam must be at most 2147483647, but is 1099511627776"),
        ({"unkpen": float("nan")}, "--unkpen must be a number"),
        ({"sampling": True, "sampling_topk": 6}, "--sampling-topk 6 is more than the 5 words"),
        ({"sampling": True, "sampling_topp": 1.5}, "--sampling-topp must be above 0 and at most 1"),
        ({"diverse_beam_groups": 0}, "--diverse-beam-groups must be 1 or more, but is 0"),
        ({"diversity_rate": float("nan")}, "--diversity-rate must be from -1 to .*, but is nan"),
        ({"lm_weight": float("nan"), "lm_path": "lm.pt"}, "--lm-weight must be from .*, but is nan"),
        ({"nbest": 4, "beam": 3}, "--nbest 4 is more than the 3 hypotheses of --beam: raise --beam"),
        ({"sampling": True, "temperature": 1e-30}, "--temperature must be from 0.01 to .*, but is 1e-30"),
        ({"iter_decode_max_iter": 3}, "--iter-decode-max-iter is for models of other tasks and has no effect here"),
        ({"lenpen_mt": float("nan")}, "--lenpen-mt is for models of other tasks"),
        ({"constraints": "ordered", "print_alignment": "hard", "beam": 2}, "--constraints may find fewer outputs than"),
    ],
)
def test_a_search_out_of_range_is_refused(options, says):
    """A model folder contains search options, which are checked like the command line."""
    with pytest.raises(UserError, match=says):
        check_generation(Namespace(**options), words=5)


# The values select the searches in fairseq's build_generator, which asserts that at most one of the first four is set.
KINDS = {"sampling": True, "diverse_beam_groups": 2, "match_source_len": True, "diversity_rate": 0.0}
KINDS |= {"constraints": "ordered", "score_reference": True}
ALONE = {
    "sampling_topk": 3,
    "sampling_topp": 0.3,
    "diverse_beam_strength": 0.7,
    "lm_weight": 0.5,
    "retain_dropout_modules": ["x"],
}


@pytest.mark.parametrize("pair", [*combinations(KINDS, 2)])
def test_two_kinds_of_search_are_refused(pair):
    for name in pair:
        check_generation(Namespace(beam=2, **{name: KINDS[name]}), words=5)
    first, second = (name.replace("_", "-") for name in pair)
    with pytest.raises(UserError, match=f"^--{first} and --{second} are different kinds of search: give one of them"):
        check_generation(Namespace(beam=2, **{name: KINDS[name] for name in pair}), words=5)


@pytest.mark.parametrize("name", ALONE)
def test_an_option_without_the_one_that_it_belongs_to_is_refused(name):
    """fairseq ignores the option, or ends with a traceback."""
    with pytest.raises(UserError, match=f"^--{name.replace('_', '-')} is for --.*: give both, or leave it out"):
        check_generation(Namespace(**{name: ALONE[name]}), words=5)
    with pytest.raises(UserError, match="--sampling-topk and --sampling-topp limit the words in different ways"):
        check_generation(Namespace(sampling=True, sampling_topk=3, sampling_topp=0.3), words=5)


@pytest.mark.parametrize(
    ("section", "options", "says"),
    [
        ("optimizer", {"adam_eps": -1.0}, "--adam-eps must be 0 or more"),
        ("optimizer", {"weight_decay": 1e300}, r"--weight-decay must be from 0 to 1e\+30, but is 1e\+300"),
        (
            "lr_scheduler",
            {"_name": "triangular", "lr_period_updates": 0.0},
            "--lr-period-updates must be 1 or more, but is 0.0",
        ),
        ("optimizer", {"momentum": float("nan")}, "--momentum must be from 0 to 1, but is nan"),
        ("optimizer", {"adadelta_rho": 2.0}, "--adadelta-rho must be from 0 to 1, but is 2"),
        ("lr_scheduler", {"_name": "inverse_sqrt", "warmup_updates": 0}, "--warmup-updates must be 1 or more"),
        ("lr_scheduler", {"_name": "reduce_lr_on_plateau", "lr_shrink": 1.0}, "--lr-shrink must be at least 0"),
        ("lr_scheduler", {"power": float("nan")}, "--power must be 0 or more, but is nan"),
        ("optimization", {"stop_min_lr": float("nan")}, "--stop-min-lr must be -1 or more"),
        ("ema", {"ema_decay": 5.0}, "--ema-decay must be from 0 to 1, but is 5"),
        ("criterion", {"label_smoothing": 1.0}, "--label-smoothing must be at least 0 and below 1"),
    ],
)
def test_a_training_out_of_range_is_refused(section, options, says):
    """Without the check, each of these values trained with exit status 0 or ended with a traceback of PyTorch."""
    sections = {"optimization": Namespace(lr=[0.1]), "dataset": Namespace()} | {section: Namespace(lr=[0.1], **options)}
    with pytest.raises(UserError, match=says):
        check_training(sections)


NEVER = {"no_epoch_checkpoints": True, "no_last_checkpoints": True}
NO_LAST, NO_VALIDATION = {"no_last_checkpoints": True}, {"disable_validation": True}


@pytest.mark.parametrize(
    ("saving", "data", "limits", "saves"),
    [
        (NEVER, NO_VALIDATION, {}, False),
        (NEVER, {"validate_interval": 5}, {"max_epoch": 4}, False),
        (NEVER, {"validate_interval": 5}, {"max_epoch": 5}, True),  # checkpoint_best.pt
        (NEVER, {"validate_interval": 5, "validate_interval_updates": 9}, {"max_epoch": 4}, True),
        (NEVER | {"save_interval": 2}, {"validate_interval": 3}, {"max_epoch": 5}, False),  # both only in epoch 6
        (NEVER | {"save_interval": 2}, {"validate_interval": 3}, {}, True),
        (NEVER, {"validate_interval": 5}, {"max_epoch": 4, "max_update": 9}, True),  # validates after the last update
        (NEVER, NO_VALIDATION, {"max_update": 9}, False),
        (NEVER | {"save_interval_updates": 9}, NO_VALIDATION, {}, True),
        (NEVER | {"no_save": True}, NO_VALIDATION, {}, True),  # as the user wants
        ({"save_interval": 5}, {}, {"max_epoch": 4}, False),
        ({"save_interval": 5}, NO_VALIDATION, {"max_epoch": 4, "stop_time_hours": 1.0}, True),
        (NO_LAST, NO_VALIDATION, {"max_epoch": 4}, True),  # checkpoint1.pt ...
        ({"no_epoch_checkpoints": True}, NO_VALIDATION, {"max_epoch": 4}, True),  # checkpoint_last.pt
    ],
)
def test_a_training_that_can_save_no_checkpoint_is_refused(saving, data, limits, saves):
    """The expected values follow ``validate_and_save`` and ``save_checkpoint`` of fairseq."""
    sections = {
        "checkpoint": CheckpointConfig(**saving),
        "dataset": DatasetConfig(**data),
        "optimization": OptimizationConfig(lr=[0.1], **limits),
    }
    if saves:
        check_training(sections)
    else:
        with pytest.raises(UserError, match="this training would save no checkpoint"):
            check_training(sections)


@pytest.mark.parametrize(
    ("data", "saving", "epochs", "counts"),
    [
        ({"validate_interval": 5}, {}, 5, False),
        ({"validate_interval": 9}, {}, 5, False),  # no validation
        ({"validate_interval": 5}, {}, 9, False),  # after epoch 5
        ({"validate_interval": 5}, {}, 10, True),  # after epochs 5 and 10
        ({"validate_interval": 5}, {}, 0, True),  # without a limit
        ({"validate_interval": 1}, {}, 1, True),  # a short trial of a training that validates after each epoch
        ({"validate_interval": 5, "validate_interval_updates": 10}, {}, 5, True),
        ({"validate_interval": 5}, {"save_interval_updates": 10}, 5, True),  # fairseq validates before each of them
    ],
)
def test_patience_is_refused_if_there_is_at_most_one_validation(data, saving, epochs, counts):
    """The expected values follow ``validate_and_save`` of fairseq. The patience had no effect."""
    sections = {
        "checkpoint": CheckpointConfig(patience=1, **saving),
        "dataset": DatasetConfig(**data),
        "optimization": OptimizationConfig(lr=[0.1], max_epoch=epochs),
    }
    if counts:
        check_training(sections)
    else:
        with pytest.raises(UserError, match=r"--patience counts validations, and --max-epoch . with --validate-inter"):
            check_training(sections)


@pytest.mark.parametrize("subsets", ["train", "valid,train"])
def test_validation_on_the_training_set_is_refused(subsets):
    """Each validation used up the batches of an epoch, because fairseq has one iterator for each set."""
    sections = {"dataset": DatasetConfig(valid_subset=subsets), "optimization": OptimizationConfig(lr=[0.1])}
    with pytest.raises(UserError, match=f"--valid-subset {subsets} has the training set, .* give fairseq-preprocess"):
        check_training(sections)
    sections["dataset"].disable_validation = True
    check_training(sections)


def test_patience_without_validation_is_refused():
    sections = {"checkpoint": CheckpointConfig(patience=2), "dataset": DatasetConfig(disable_validation=True)}
    with pytest.raises(UserError, match="--patience counts validations, and --disable-validation has none"):
        check_training(sections | {"optimization": OptimizationConfig(lr=[0.1])})


@pytest.mark.parametrize(
    ("metric", "better"),
    [
        *dict.fromkeys(("bleu", "reward", "reward_simplicity", "reward_relevance", "reward_fluency"), "higher").items(),
        *dict.fromkeys(("loss", "nll_loss", "ppl", "source_label_loss", "target_label_loss"), "lower").items(),
        ("num_updates", "either"),
        ("copied", "either"),
    ],
)
@pytest.mark.parametrize("highest", [True, False])
@pytest.mark.parametrize("validates", [True, False])
def test_the_worst_checkpoint_is_never_kept_as_the_best(metric, better, highest, validates):
    """Without --maximize-best-checkpoint-metric, fairseq keeps the checkpoint with the lowest BLEU.

    The metrics are the values that our criteria log at a validation.
    """
    saving = CheckpointConfig(best_checkpoint_metric=metric, maximize_best_checkpoint_metric=highest)
    sections = {"checkpoint": saving, "dataset": DatasetConfig(disable_validation=not validates)}
    sections["optimization"] = OptimizationConfig(lr=[0.1])
    if validates and better == ("lower" if highest else "higher"):
        with pytest.raises(UserError, match=f"would keep the checkpoint with the .* {metric}: "):
            check_training(sections)
    else:
        check_training(sections)
    saving.no_save = True
    check_training(sections)
    if validates and better == ("lower" if highest else "higher"):
        saving.patience = 2  # which counts validations without improvement
        with pytest.raises(UserError, match=f"would keep the checkpoint with the .* {metric}: "):
            check_training(sections)


@pytest.mark.parametrize("text", ["nojson", "", "[1]", '{"beam": "x"}', '{"nope": 1}', "[" * 10**5])
def test_search_options_of_validation_must_be_options(text):
    with pytest.raises(UserError, match="--eval-bleu-args must be a JSON object of generation options"):
        check_task(Namespace(eval_bleu=True, eval_bleu_args=text))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_bleu_detok": "mose"}, "--eval-bleu-detok mose is unknown: choose from moses, nltk, space"),
        ({"eval_bleu_detok_args": "[1]"}, "--eval-bleu-detok-args must be a JSON object of options, such as "),
        ({"eval_bleu_detok_args": ""}, "--eval-bleu-detok-args must be a JSON object of options, such as "),
        ({"eval_bleu_detok_args": '{"tokenizer": "x"}'}, "--eval-bleu-detok-args must be a JSON object of options"),
        ({"eval_bleu_detok_args": "{"}, "--eval-bleu-detok-args must be a JSON object of options, such as "),
    ],
)
def test_the_detokeniser_of_validation_is_checked(options, message):
    """fairseq failed with a KeyError or a TypeError."""
    usual = {"eval_bleu": True, "eval_bleu_args": "{}", "eval_bleu_detok": "space", "eval_bleu_detok_args": "{}"}
    check_task(Namespace(**usual))
    with pytest.raises(UserError, match=message):
        check_task(Namespace(**usual | options))
