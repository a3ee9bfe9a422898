"""Test the task on data binarised in the test: pairs are kept, limits hold, a restart gives equal batches."""

from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.token_generation_constraints import pack_constraints

from tests.model_contract import EOS, build_model, make_dictionary
from tests.processors import needs_int8
from wean_fairseq.data.pairs import dictionary_file
from wean_fairseq.errors import UserError
from wean_fairseq.search.fast_generator import FastSequenceGenerator
from wean_fairseq.search.generator import PaperSequenceGenerator
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask

DICTIONARY = make_dictionary()
LENGTHS = [3, 9, 1, 4, 12, 2, 5, 7, 6, 8, 10]  # 11 pairs, so that the last of the batches of 8 is incomplete


def write_side(folder, split, language, sentences):
    prefix = str(folder / f"{split}.src-tgt.{language}")
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(DICTIONARY))
    for row in sentences:
        builder.add_item(torch.tensor([*row, EOS]))
    builder.finalize(f"{prefix}.idx")


def words(length, offset=0):
    return [4 + (offset + i) % 15 for i in range(length)]


@pytest.fixture
def data(tmp_path):
    for split in ("train", "valid", "test"):
        write_side(tmp_path, split, "src", [words(n) for n in LENGTHS])
        write_side(tmp_path, split, "tgt", [words(n, 3) for n in reversed(LENGTHS)])
    for language in ("src", "tgt"):
        DICTIONARY.save(str(tmp_path / f"dict.{language}.txt"))
    return tmp_path


def make_task(data, **options):
    cfg = ParaphraseConfig(
        data=str(data), source_lang="src", target_lang="tgt", train_subset="train", dataset_impl=None
    )
    cfg.required_seq_len_multiple, cfg.num_shards, cfg.shard_id = 1, 1, 0  # fairseq takes them from its dataset options
    for name, value in options.items():
        setattr(cfg, name, value)
    return ParaphraseTask.setup_task(cfg)


def batches(task, split, epoch=1, **options):
    task.load_dataset(split)
    iterator = task.get_batch_iterator(
        task.dataset(split),
        max_sentences=4,
        max_positions=(1024, 1024),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=8,
        seed=1,
        epoch=epoch,
        disable_iterator_cache=True,
        **options,
    )
    return [batch["id"].tolist() for batch in iterator.next_epoch_itr(shuffle=True) if batch]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_every_pair_is_in_exactly_one_batch(data, split):
    seen = [index for batch in batches(make_task(data), split) for index in batch]
    assert sorted(seen) == list(range(len(LENGTHS)))


@pytest.mark.parametrize("options", [{}, {"no_source_end": True}, {"required_seq_len_multiple": 8}])
def test_the_share_of_padding_is_said(data, caplog, options):
    """The expected share is the padding counted in the batches."""
    task = make_task(data, **options)
    task.load_dataset("train")
    sizes = {"max_sentences": 4, "max_positions": (99, 99), "seed": 1}
    with caplog.at_level("INFO"):
        iterator = task.get_batch_iterator(task.dataset("train"), ignore_invalid_inputs=True, **sizes)
    made = list(iterator.next_epoch_itr(shuffle=False))
    sides = [
        torch.cat([side.flatten() for side in tensors])
        for tensors in zip(*((batch["net_input"]["src_tokens"], batch["target"]) for batch in made), strict=True)
    ]
    source, target = (side.eq(DICTIONARY.pad()).float().mean().item() for side in sides)
    assert source > 0 and target > 0
    assert iterator.padding(not options.get("no_source_end"), task.cfg.required_seq_len_multiple) == pytest.approx(
        [source, target]
    )
    shares = f"padding takes {source:.1%} of the positions of source sentences and {target:.1%} of target sentences"
    assert f"{len(made)} batches an epoch; {shares}" in caplog.text


def test_drop_leaves_long_pairs_out_of_training_only(data):
    task = make_task(data, max_pair_length=7, length_policy="drop")
    fits = [i for i, pair in enumerate(zip(LENGTHS, reversed(LENGTHS), strict=True)) if max(pair) <= 7]
    assert sorted(index for batch in batches(task, "train") for index in batch) == fits
    assert len(fits) < len(LENGTHS)
    for split in ("valid", "test"):
        assert len([index for batch in batches(task, split) for index in batch]) == len(LENGTHS)


def test_truncate_cuts_training_pairs_and_sources_but_no_reference(data):
    task = make_task(data, max_pair_length=5, length_policy="truncate")
    for split, cut_target in (("train", True), ("valid", False), ("test", False)):
        task.load_dataset(split)
        for index, (source, target) in enumerate(zip(LENGTHS, reversed(LENGTHS), strict=True)):
            item = task.dataset(split)[index]
            assert item["source"].tolist() == [*words(min(source, 5)), EOS]
            assert item["target"].tolist() == [*words(min(target, 5) if cut_target else target, 3), EOS]


def test_truncate_reaches_interactive_input(data):
    task = make_task(data, max_pair_length=5, length_policy="truncate")
    dataset = task.build_dataset_for_inference([torch.tensor([*words(9), EOS])], np.array([10]))
    assert dataset[0]["source"].tolist() == [*words(5), EOS]


def test_a_restart_in_a_later_epoch_builds_the_same_batches(data):
    """fairseq draws the batches with the seed of the epoch in which the training was started."""
    task = make_task(data)
    task.load_dataset("train")
    iterator = task.get_batch_iterator(task.dataset("train"), max_sentences=3, max_positions=(99, 99), seed=1, epoch=1)
    straight = []
    for _ in range(3):
        straight.append([batch["id"].tolist() for batch in iterator.next_epoch_itr(shuffle=True)])
    restarted = make_task(data)
    restarted.load_dataset("train")
    later = restarted.get_batch_iterator(
        restarted.dataset("train"), max_sentences=3, max_positions=(99, 99), seed=1, epoch=3
    )
    assert [batch["id"].tolist() for batch in later.next_epoch_itr(shuffle=True)] == straight[2]
    assert straight[0] != straight[1]


def test_missing_directory_dictionary_and_split_are_named(data, tmp_path):
    with pytest.raises(UserError, match=r"there is no data directory '.*nowhere'"):
        make_task(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"has no split 'dev' of src -> tgt; it has test, train, valid"):
        make_task(data).load_dataset("dev")
    (data / "dict.tgt.txt").unlink()
    with pytest.raises(UserError, match=r"has no dict.tgt.txt"):
        make_task(data)


def test_outputs_of_the_search_are_refused_in_a_training(data):
    """fairseq-train ignored the names of files that only fairseq-generate and fairseq-interactive write."""
    for name in ("copy_provenance", "granularity_dump"):
        task = make_task(data, **{name: str(data / "out")})
        with pytest.raises(UserError, match=f"--{name.replace('_', '-')} is for fairseq-generate and fairseq-inter"):
            task.build_criterion(Namespace(_name="model_loss"))


def test_one_language_alone_is_not_ignored(data):
    """fairseq infers both languages if one is missing, and used the inferred ones without a message."""
    for given in ({"source_lang": "tgt"}, {"target_lang": "other"}):
        with pytest.raises(UserError, match=r"alone does not choose the data: .* has the sides src and tgt"):
            make_task(data, **{"source_lang": None, "target_lang": None, **given})
    task = make_task(data, target_lang=None)
    assert (task.cfg.source_lang, task.cfg.target_lang) == ("src", "tgt")


@pytest.mark.parametrize("shards", [1, 2, 3, 20])
def test_shards_divide_the_data(data, shards):
    """An earlier version put every sentence in one shard with ``--num-shards N --shard-id K`` of fairseq-generate."""
    found = [batches(make_task(data, num_shards=shards, shard_id=shard), "test") for shard in range(shards)]
    assert sorted(number for shard in found for batch in shard for number in batch) == list(range(len(LENGTHS)))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_shards_and_processes_divide_the_data(data):
    found = [
        batches(make_task(data, num_shards=2, shard_id=shard), "test", num_shards=2, shard_id=rank)
        for shard in range(2)
        for rank in range(2)
    ]
    assert sorted(number for part in found for batch in part for number in batch) == list(range(len(LENGTHS)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_shards": 2, "shard_id": 7}, "--shard-id counts from 0 and must be below --num-shards 2, but is 7"),
        ({"num_shards": 0}, "--num-shards must be 1 or more, but is 0"),
        ({"num_shards": 2, "shard_id": -1}, "--shard-id must be 0 or more, but is -1"),
    ],
)
def test_shards_that_do_not_exist_are_refused(data, options, message):
    with pytest.raises(UserError, match=message):
        batches(make_task(data, **options), "test")


def test_typed_lines_are_not_divided(data):
    task = make_task(data, num_shards=2)
    typed = task.build_dataset_for_inference([torch.tensor([*words(3), EOS])], [4])
    with pytest.raises(UserError, match="--num-shards and --shard-id are for fairseq-generate"):
        task.get_batch_iterator(typed, max_sentences=1)


def test_sources_alone_take_the_dictionary_of_the_sources(data):
    """``fairseq-preprocess --only-source --testpref`` writes one dictionary and no target."""
    for path in {*data.glob("*.tgt.*"), *data.glob("train.*")}:
        path.unlink()
    task = make_task(data)
    task.load_dataset("test")
    assert task.target_dictionary is task.source_dictionary
    assert [len(task.dataset("test")[index]["source"]) for index in range(3)] == [4, 10, 2]
    assert task.dataset("test")[0]["target"] is None


def test_a_dictionary_that_the_user_names_is_not_replaced(tmp_path):
    """Only a missing ``dict.LANGUAGE.txt`` may be the one dictionary of sources, not ``--srcdict vocab``."""
    (tmp_path / "dict.src.txt").touch()
    (tmp_path / "words").touch()
    for name, found in (("words", "words"), ("none", "none"), ("a.b", "a.b"), ("dict.tgt.txt", "dict.src.txt")):
        assert dictionary_file(tmp_path / name) == tmp_path / found


@pytest.mark.parametrize("written", ["zebra", "w1 zebra yak", "<unk>"])
def test_an_unknown_word_of_a_constraint_is_named_with_its_line(data, written):
    """fairseq-interactive packs the constraints of a buffer in this way. The second buffer begins with line 3."""
    task = make_task(data)
    lines = [torch.tensor([*words(3), EOS])] * 2
    encoded = [task.target_dictionary.encode_line(text, append_eos=False) for text in ("w1", "w2 w3", written)]
    task.build_dataset_for_inference(lines, [4, 4], constraints=pack_constraints([encoded[:1], encoded[:2]]))
    unknown = ", ".join(word for word in written.split() if word != "w1")
    with pytest.raises(UserError, match=f"line 4 of the input has constraints .* not in the dictionary: {unknown}"):
        task.build_dataset_for_inference(lines, [4, 4], constraints=pack_constraints([[], encoded]))


@pytest.mark.parametrize("others", [[], ["w3"], ["w3", "w1 w2"]])
def test_a_constraint_without_a_word_is_named_with_its_line(data, others):
    """fairseq would raise an AssertionError, or write the words of the other constraints once more."""
    task = make_task(data)
    encoded = [
        task.target_dictionary.encode_line(text, append_eos=False, add_if_not_exist=False) for text in (*others, "")
    ]
    for phrases in (encoded, encoded[::-1]):
        with pytest.raises(UserError, match="line 2 of the input has a constraint without a word: give"):
            task.build_dataset_for_inference(
                [torch.tensor([*words(3), EOS])] * 2, [4, 4], constraints=pack_constraints([encoded[:-1], phrases])
            )


@pytest.mark.parametrize("written", ["</s>", "w1 <pad>", "<s>"])
def test_a_symbol_is_no_constraint(data, written):
    """The search writes neither of them within an output."""
    task = make_task(data)
    packed = pack_constraints([[task.target_dictionary.encode_line(written, append_eos=False, add_if_not_exist=False)]])
    with pytest.raises(
        UserError, match=f"line 1 of the input has constraints .* the dictionary: {written[-5:].strip()}"
    ):
        task.build_dataset_for_inference([torch.tensor([*words(3), EOS])], [4], constraints=packed)


def test_constraints_of_too_many_words_are_refused(data):
    """fairseq calls itself once for each word of a constraint, and Python allows 1,000 calls."""
    task, source = make_task(data), torch.tensor([*words(3), EOS])
    phrase = task.target_dictionary.encode_line("w1 " * 250, append_eos=False)
    task.build_dataset_for_inference([source], [4], constraints=pack_constraints([[phrase] * 2]))
    with pytest.raises(UserError, match="line 2 of the input: the constraints have 501 words: give at most 500 for a"):
        task.build_dataset_for_inference([source], [4], constraints=pack_constraints([[phrase, phrase, phrase[:1]]]))


def test_sides_of_different_length_are_named_with_their_counts(data):
    write_side(data, "train", "tgt", [words(3)] * 7)
    with pytest.raises(UserError, match=r"train.src-tgt.src has 11 lines and .*train.src-tgt.tgt has 7 lines"):
        make_task(data).load_dataset("train")


def test_a_split_without_sentences_is_named(data):
    for path in data.glob("valid.*"):
        path.unlink()
    for side in ("src", "tgt"):
        (data / f"valid.src-tgt.{side}").touch()
    with pytest.raises(UserError, match=r"valid\.src-tgt\.src has no sentences: give fairseq-preprocess a text"):
        make_task(data, dataset_impl="raw").load_dataset("valid")


def test_empty_lines_are_named_or_kept(data):
    rows = [words(n) for n in LENGTHS]
    rows[4] = rows[8] = []
    write_side(data, "train", "src", rows)
    with pytest.raises(UserError, match=r"train.src-tgt.src has 2 empty line\(s\) \(line 5, 9\)"):
        make_task(data).load_dataset("train")
    task = make_task(data, keep_empty_lines=True)
    task.load_dataset("train")
    assert len(task.dataset("train")) == len(LENGTHS)


def test_parts_that_are_combined_are_all_checked_and_read(data):
    write_side(data, "train1", "src", [words(3), words(4)])
    write_side(data, "train1", "tgt", [words(3), words(4)])
    task = make_task(data)
    task.load_dataset("train", combine=True)
    assert len(task.dataset("train")) == len(LENGTHS) + 2
    write_side(data, "train1", "src", [words(3), []])
    with pytest.raises(UserError, match=r"train1.src-tgt.src has 1 empty line\(s\) \(line 2\)"):
        make_task(data).load_dataset("train", combine=True)


def test_the_other_direction_of_a_pair_reads_the_same_files(data):
    task = make_task(data, source_lang="tgt", target_lang="src")
    task.load_dataset("train")
    assert task.dataset("train")[0]["target"].tolist() == [*words(LENGTHS[0]), EOS]
    with pytest.raises(UserError, match="it has test, train, valid"):
        task.load_dataset("dev")


def test_the_wrong_storage_format_is_named(data):
    with pytest.raises(UserError, match="are not text data files: leave --dataset-impl out"):
        make_task(data, dataset_impl="raw").load_dataset("train")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_pair_length": -1}, "--max-pair-length must be 0"),
        ({"length_policy": "truncate"}, "--length-policy truncate needs --max-pair-length"),
        ({"no_source_end": True, "keep_empty_lines": True}, "--no-source-end leaves an empty line without tokens"),
    ],
)
def test_limits_that_make_no_sense_are_refused(data, options, message):
    with pytest.raises(UserError, match=message):
        make_task(data, **options)


def test_a_model_trained_on_cut_sources_warns_where_they_are_read_whole(data, caplog):
    """fairseq passes the options of the training as ``task_cfg``."""
    trained = make_task(data, max_pair_length=5, length_policy="truncate").cfg
    make_task(data, max_pair_length=5, length_policy="truncate").load_dataset("test", task_cfg=trained)
    assert "was trained with" not in caplog.text
    make_task(data).load_dataset("test", task_cfg=trained)
    assert "was trained with --length-policy truncate --max-pair-length 5" in caplog.text


@pytest.mark.parametrize("limits", [{}, {"max_pair_length": 5, "length_policy": "truncate"}], ids=["whole", "cut"])
def test_sources_may_come_without_their_end(data, limits, caplog):
    """Only sources may lack the end symbol.

    Every target has an end symbol, because the model must learn to predict it.
    """
    plain, task = make_task(data, **limits), make_task(data, no_source_end=True, **limits)
    found, expected = sample_of(task), sample_of(plain)
    assert found["net_input"]["src_lengths"].tolist() == [n - 1 for n in expected["net_input"]["src_lengths"].tolist()]
    assert not found["net_input"]["src_tokens"].eq(EOS).any()
    torch.testing.assert_close(found["target"], expected["target"])
    typed = [torch.tensor([*words(n), EOS]) for n in (3, 7, 0)]
    read = task.build_dataset_for_inference(typed, [len(line) for line in typed])
    kept = words(7) if not limits else words(7)[:5]
    assert [read[row]["source"].tolist() for row in range(3)] == [words(3), kept, [EOS]]
    plain.load_dataset("valid", task_cfg=task.cfg)
    assert "was trained with --no-source-end" in caplog.text


def generation_args(**options):
    return Namespace(**{"beam": 3, "max_len_b": 12, "lenpen": 1, "replace_unk": None} | options)


def search(task, args, model, sample):
    return task.build_generator([model], args).generate([model], sample)


def sample_of(task, split="test"):
    task.load_dataset(split)
    dataset = task.dataset(split)
    return dataset.collater([dataset[index] for index in range(len(dataset))])


def test_the_wean_search_finds_what_full_search_finds_sooner(data):
    """A sum of log-probabilities only decreases with more words, so stopping at the best finished output is safe."""
    model = build_model("wean_lstm", make_task(data), embed_dim=6, hidden_size=10, query_bias=True)
    with torch.no_grad():  # makes </s> likely, at different steps for different sentences
        model.decoder.output.score.query_proj.bias += 0.3 * model.encoder.embed_tokens.weight[EOS]
    full = search(make_task(data), generation_args(lenpen=0.0), model, sample_of(make_task(data)))
    task = make_task(data, search_preset="wean")
    early = search(task, generation_args(), model, sample_of(task))
    for expected, found in zip(full, early, strict=True):
        assert found[0]["tokens"].tolist() == expected[0]["tokens"].tolist()
        torch.testing.assert_close(found[0]["score"], expected[0]["score"])
        assert float(found[0]["score"]) == pytest.approx(float(found[0]["positional_scores"].sum()), abs=1e-4)
    assert sum(map(len, early)) < sum(map(len, full))


def test_the_wean_search_waits_for_the_best_hypothesis_to_end(data):
    """The oracle is a plain Python search that continues until the best candidate of a step is an end."""
    task = make_task(data, search_preset="wean")
    model = build_model("wean_lstm", task, embed_dim=6, hidden_size=10, query_bias=True)
    with torch.no_grad():  # makes </s> a candidate in the first step, but not the best one
        model.decoder.output.score.query_proj.bias += 0.25 * model.encoder.embed_tokens.weight[EOS]
    sample = sample_of(task)
    waited = 0
    for index, hypotheses in enumerate(search(task, generation_args(), model, sample)):
        source = sample["net_input"]["src_tokens"][index]
        expected, ends_passed = plain_search(model, source[source != 1], beam=3, max_len=12)
        assert [hypothesis["tokens"].tolist() for hypothesis in hypotheses] == expected
        waited += ends_passed
    assert waited > 0  # otherwise a search that stops at any </s> would pass


@torch.no_grad()
def plain_search(model, source, beam, max_len):
    """Search one sentence, and compute each hypothesis from its whole prefix.

    Return the outputs from best to worst, and how often a finished hypothesis was not the best candidate.
    """
    encoder_out = model.encoder(source.unsqueeze(0))
    alive, done, passed = [(0.0, [])], [], 0
    for step in range(max_len + 1):
        candidates = []
        for score, words in alive:
            tokens = torch.tensor([[EOS, *words]])
            lprobs = model.decoder(tokens, encoder_out)[0][0, -1].log_softmax(-1)
            allowed = [EOS] if step == max_len else [w for w in range(len(DICTIONARY)) if w != 1 and (step or w != EOS)]
            candidates += [(score + float(lprobs[word]), [*words, word]) for word in allowed]
        candidates.sort(key=lambda pair: -pair[0])
        ended = [pair for pair in candidates[:beam] if pair[1][-1] == EOS]
        done += ended
        if candidates[0][1][-1] == EOS or len(done) >= beam:
            break
        passed += bool(ended)
        alive = [pair for pair in candidates[: 2 * beam] if pair[1][-1] != EOS][:beam]
    return [words for _, words in sorted(done, reverse=True)[:beam]], passed


def test_the_wean_search_finishes_as_many_hypotheses_as_are_asked_for(data):
    task = make_task(data, search_preset="wean")
    model = build_model("wean_lstm", task, embed_dim=6, hidden_size=10)
    found = search(task, generation_args(beam=4, nbest=3), model, sample_of(task))
    assert all(len(hypotheses) >= 3 for hypotheses in found)


def test_one_model_is_searched_faster_and_everything_else_by_fairseq(data):
    model = build_model("wean_lstm", make_task(data), embed_dim=6, hidden_size=10)
    transformer = build_model("paraphrase_transformer", make_task(data), embed_dim=6, attention_heads=2)

    def generator(models, task_options=None, **options):
        return make_task(data, **task_options or {}).build_generator(models, generation_args(**options))

    assert type(generator([model])) is FastSequenceGenerator
    assert type(generator([model], replace_unk="")) is FastSequenceGenerator
    assert type(generator([model], {"stock_search": True})) is SequenceGenerator
    assert type(generator([model], {"stock_search": True}, replace_unk="")) is PaperSequenceGenerator
    assert type(generator([model, model])) is SequenceGenerator
    assert type(generator([transformer])) is FastSequenceGenerator
    assert type(generator([transformer, transformer])) is SequenceGenerator
    assert type(generator([model], print_alignment="hard")) is SequenceGeneratorWithAlignment
    assert not generator([model], sampling=True).is_fast
    assert not generator([model], no_repeat_ngram_size=2).is_fast
    assert not generator([model], {"search_preset": "cdnpg-sampling"}).is_fast


@pytest.mark.parametrize("factors", ["bf16", "int8"])
def test_rounded_scores_are_for_the_faster_search(data, factors):
    if factors == "int8":
        needs_int8()
    model = build_model("wean_lstm", make_task(data), embed_dim=6, hidden_size=10)
    task = make_task(data, **{f"{factors}_scores": True})
    assert task.build_generator([model], generation_args()).factors == factors
    for models, options in (
        ([model, model], {}),
        ([model], {"sampling": True}),
        ([model], {"print_alignment": "hard"}),
    ):
        with pytest.raises(UserError, match=f"--{factors}-scores is for plain beam search"):
            task.build_generator(models, generation_args(**options))


def test_scores_are_rounded_in_one_way(data):
    model = build_model("wean_lstm", make_task(data), embed_dim=6, hidden_size=10)
    with pytest.raises(UserError, match="--bf16-scores and --int8-scores round the same scores"):
        make_task(data, bf16_scores=True, int8_scores=True).build_generator([model], generation_args())


def test_replace_unk_positions_are_the_most_attended_words(data):
    """The expected positions are the argmax of the attention over the words of the sentence, without padding."""
    task = make_task(data)
    model = build_model("wean_lstm", task, embed_dim=6, hidden_size=10)
    sample = sample_of(task)
    generator = task.build_generator([model], generation_args(replace_unk=""))
    assert isinstance(generator, PaperSequenceGenerator)
    for tokens, hypotheses in zip(sample["net_input"]["src_tokens"], generator.generate([model], sample), strict=True):
        real = [column for column, token in enumerate(tokens.tolist()) if token not in (1, EOS)]
        best = hypotheses[0]
        expected = [
            max(range(len(real)), key=lambda i, s=s: best["attention"][real[i], s]) for s in range(len(best["tokens"]))
        ]
        assert best["alignment"] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lenpen": 0.6}, "--lenpen 0.6 contradicts"),
        ({"sampling": True}, "does not go with --sampling"),
        ({"print_alignment": "hard"}, "does not go with --print-alignment"),
        ({"diverse_beam_groups": 2}, "does not go with --diverse-beam-groups"),
        ({"score_reference": True}, "does not go with --score-reference"),
        ({"unkpen": -1.0}, "no negative --unkpen"),
    ],
)
def test_options_that_contradict_the_wean_search_are_refused(data, options, message):
    task = make_task(data, search_preset="wean")
    model = build_model("wean_lstm", task, embed_dim=6, hidden_size=10)
    with pytest.raises(UserError, match=message):
        task.build_generator([model], generation_args(**options))


def with_a_forced_beginning(data, arch, **options):
    """Return the task, and its best output for a source with an unknown word.

    The output is forced to begin with two words.
    """
    task = make_task(data, **options)
    task.source_dictionary.reserve_slots(5)
    model = build_model(arch, task, embed_dim=6, hidden_size=8)
    source = task.source_dictionary.encode_line("w1 Zorblax w2").long().unsqueeze(0)
    sample = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}}
    prefix = task.target_dictionary.encode_line("w1 Zorblax", append_eos=False).long().unsqueeze(0)
    generator = task.build_generator([model], Namespace(beam=2, max_len_a=0, max_len_b=6, unkpen=0))
    return task, task.inference_step(generator, [model], sample, prefix_tokens=prefix)[0][0]["tokens"]


@pytest.mark.parametrize(("arch", "expected"), [("copynet", "w1 Zorblax"), ("rnnsearch", "w1 <unk>")])
def test_an_output_begins_as_it_is_forced_to(data, arch, expected):
    """A system that cannot copy writes <unk>, and a copying one writes the word."""
    task, tokens = with_a_forced_beginning(data, arch)
    assert task.target_dictionary.string(tokens[:2]) == expected


def test_a_forced_beginning_that_is_never_written_is_refused(data):
    with pytest.raises(UserError, match="--search-preset copynet never writes <unk>"):
        with_a_forced_beginning(data, "rnnsearch", search_preset="copynet")


@pytest.mark.parametrize("archs", [("copynet", "wean_lstm"), ("wean_lstm", "copynet")])
def test_an_ensemble_of_what_copies_and_what_does_not_is_refused(data, archs):
    task = make_task(data)
    first, second = (Namespace(arch=arch, embed_dim=6, hidden_size=8) for arch in archs)
    task.build_model(first)
    with pytest.raises(UserError, match="--path has both"):
        task.build_model(second)


def test_an_impossible_number_of_slots_is_refused(data):
    for slots, limit in ((-2, "from -1 to 100000"), (1 << 40, "at most 100000")):
        with pytest.raises(UserError, match=f"--oov-slots must be {limit}, but is {slots}"):
            make_task(data, oov_slots=slots)


def test_a_negative_loss_limit_is_refused_before_the_training(data):
    with pytest.raises(UserError, match="--loss-limit must be 0 or more, but is -1"):
        make_task(data, loss_limit=-1.0)
