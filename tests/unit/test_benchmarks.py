"""Test that the parts of the benchmarks build, train and report at toy size. No test measures time."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.memoised_options import memoise_options
from wean_fairseq.search.packed_linear import int8_is_exact

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("harness", "workload", "training_step", "copying", "granularity", "essay_step", "gpu_training", "gpu")
SCRIPTS += (
    "all_systems",
    "transformer_families",
    "decoding",
    "scaling",
    "update_bytes",
    "data_path",
    "preprocess_lcsts",
)


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """Put the folder of the benchmarks on the module path, as Python does when it runs a script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        for name in SCRIPTS:
            patch.delitem(sys.modules, name, raising=False)
        importlib.import_module("training_step").use_plugin()
        memoise_options(patch)
        yield


@pytest.fixture
def harness():
    return importlib.import_module("harness")


@pytest.fixture
def workload():
    return importlib.import_module("workload")


@pytest.fixture
def training_step():
    return importlib.import_module("training_step")


@pytest.fixture
def threads():
    """Yield the number of threads, and restore it after the test."""
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


# --- harness --------------------------------------------------------------------------------------------------------


def test_interleaving_runs_every_variant_in_every_round_and_turns_the_order(harness):
    calls = []
    steps = {name: lambda index, name=name: calls.append((index, name)) or {} for name in "ab"}
    timings = harness.interleave(steps, rounds=2, warmup=1)
    assert calls == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert {name: len(rounds) for name, rounds in timings.items()} == {"a": 2, "b": 2}


def test_ratio_is_the_median_of_the_rounds(harness):
    # The ratios are 1/2, 6/4 and 3/1, so their median is 1.5. The ratio of the means would be 10/7.
    assert harness.median_ratio([1.0, 6.0, 3.0], [2.0, 4.0, 1.0]) == 1.5


def test_summary(harness):
    timings = {
        "peer": [harness.Timing(2.0, 4.0, {"forward": 1.0}), harness.Timing(2.0, 4.0, {"forward": 2.0})],
        "mine": [harness.Timing(1.0, 1.0, {}), harness.Timing(1.0, 1.0, {})],
    }
    summary = harness.summarise(timings, "peer")
    assert summary["peer"]["phases_cpu_ms"] == {"forward": 1500.0}
    assert (summary["mine"]["cpu_ms"], summary["mine"]["cpu_ratio"], summary["mine"]["wall_ratio"]) == (1e3, 0.5, 0.25)
    assert summary["mine"]["all_cpu_ms"] == [1000.0, 1000.0]


def test_failing_child_is_an_error_with_its_own_words(harness, tmp_path):
    script = tmp_path / "child.py"
    script.write_text("import sys; sys.exit('no such thing: ' + sys.argv[1])")
    with pytest.raises(RuntimeError, match="no such thing: unicorn"):
        harness.run_child(script, ["unicorn"])


def test_child_answers_with_its_last_line(harness, tmp_path):
    script = tmp_path / "child.py"
    script.write_text("print('chatter'); print('{\"peak\": 1.5}')")
    assert harness.run_child(script, []) == {"peak": 1.5}
    script.write_text("import time; time.sleep(60)")
    with pytest.raises(RuntimeError, match="was ended after 1 s"):
        harness.run_child(script, [], 1.0)


def test_results_name_no_folder_of_the_machine(harness, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/some/where/lib/libmalloc.so")
    run = harness.describe_run("python benchmarks/x.py", ["torch", "no-such-package"])
    assert run["allocator"]["LD_PRELOAD"] == "libmalloc.so"
    assert run["versions"]["no-such-package"] == "not installed"
    assert "/some" not in json.dumps(run) and str(ROOT) not in json.dumps(run)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\ncpu family\t: 26\nmodel\t: 2\nmodel name\t: Chip X\nflags\t: fpu avx512f\n\n", "AVX-512"),
        ("processor : 0\ncpu family\t: 26\nmodel\t: 2\nmodel name\t: Chip X\nflags\t: fpu avx2\n\n", "no AVX-512"),
    ],
)
def test_the_processor_is_told_apart_from_others_of_its_name(harness, monkeypatch, tmp_path, text, expected):
    (tmp_path / "cpuinfo").write_text(text + text.replace("26", "25"))
    monkeypatch.setattr(harness, "CPU_INFO", tmp_path / "cpuinfo")
    assert harness.describe_run("", [])["cpu"] == f"Chip X (family 26 model 2, {expected})"


def test_a_processor_of_which_nothing_is_written_is_named_all_the_same(harness, monkeypatch, tmp_path):
    monkeypatch.setattr(harness, "CPU_INFO", tmp_path / "absent")
    monkeypatch.setattr(harness.platform, "processor", lambda: "chip")
    assert harness.describe_run("", [])["cpu"] == "chip"


# --- workload -------------------------------------------------------------------------------------------------------


def test_batches_have_exactly_the_size(workload):
    size = workload.TOY
    (batch,) = workload.make_batches(size, 1, seed=1)
    assert batch["net_input"]["src_tokens"].shape == (size.batch_size, size.source_length)
    assert batch["target"].shape == (size.batch_size, size.target_length)
    assert batch["ntokens"] == size.batch_size * size.target_length
    assert batch["target"][:, -1].unique().tolist() == [2]  # in fairseq's dictionaries, the end symbol has id 2
    assert 4 <= batch["net_input"]["src_tokens"][:, :-1].min() <= batch["target"].max() < size.vocabulary


def test_batches_follow_the_seed(workload):
    first, again, other = (workload.make_batches(workload.TOY, 1, seed)[0]["target"] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_every_variant_trains_and_does_not_stop(workload, training_step, tmp_path):
    size = replace(workload.TOY, dropout=0.0)
    workload.write_dictionaries(tmp_path, size.vocabulary)
    batches = workload.make_batches(size, 1, seed=1)
    for variant in (*training_step.VARIANTS, training_step.CONCAT):
        step = workload.TrainingStep(variant, size, tmp_path, batches, seed=1)
        before = step.criterion(step.model, batches[0])[0].item()
        phases = step(0)
        assert tuple(phases) == workload.PHASES
        assert step.criterion(step.model, batches[0])[0].item() < before, variant.name


def test_models_differ_where_they_should(workload, training_step, tmp_path):
    size = workload.TOY
    workload.write_dictionaries(tmp_path, size.vocabulary)
    batches = workload.make_batches(size, 1, seed=1)
    counts = {
        variant.name: workload.TrainingStep(variant, size, tmp_path, batches, seed=1).num_parameters()
        for variant in training_step.VARIANTS
    }
    table = size.vocabulary * size.dim
    peer, shared = counts["fairseq lstm"], counts["fairseq lstm --share-all-embeddings"]
    linear = table + size.vocabulary  # for a separate output layer with a bias
    assert peer - shared == table + linear
    assert (
        counts["seq2seq_lstm --optimizer fused_adam"] - counts["wean_lstm"] == linear - size.dim**2
    )  # the matrix W in eq. 5


def test_output_products_are_those_of_a_linear_layer(workload):
    products = workload.OutputProducts(replace(workload.TOY, batch_size=1, target_length=3), seed=1)
    products(0)
    scores = products.query @ products.weight.t()
    torch.testing.assert_close(products.scores, scores)
    torch.testing.assert_close(products.grad_query, scores @ products.weight)
    torch.testing.assert_close(products.grad_weight, scores.t() @ products.query)


def test_products_alone_repeat_the_matrix_products_of_a_step(workload):
    """A linear map needs three matrix products: for the scores and for both gradients.

    Its bias and the ReLU need none.
    """
    layer, inputs = torch.nn.Linear(3, 7), torch.ones(5, 3, requires_grad=True)
    products = workload.ProductsAlone(lambda index: layer(inputs).relu().sum().backward())
    shapes = [tuple(call().shape) for call in products.calls]
    assert sorted(shapes) == sorted([(5, 7), (5, 3), (7, 3)])
    assert products(0) == {}


def test_products_alone_include_those_with_packed_weights(workload):
    weight = torch.ones(4, 3)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, 2)

    def step(index):
        return torch.ops.mkldnn._linear_pointwise(torch.ones(2, 3), packed, None, "none", [], "")

    (product,) = workload.ProductsAlone(step).calls
    torch.testing.assert_close(product(), torch.full((2, 4), 3.0))  # each number is a sum of three products of ones


def test_roofline_is_the_share_of_the_faster_products(training_step):
    """With the faster library, the products take 60 of the layer's 80 ms.

    The network takes 100 of the step's 200 ms, and the layer 80 ms.
    """
    summary = {
        training_step.FLOOR: {"cpu_ms": 120.0, "gflop_per_s": 50.0},
        training_step.FLOOR_ONEDNN: {"cpu_ms": 60.0, "gflop_per_s": 100.0},
        training_step.OUTPUT_LAYER: {"cpu_ms": 80.0},
        training_step.OURS: {"cpu_ms": 200.0, "phases_cpu_ms": {"forward": 120.0, "backward": 60.0, "update": 20.0}},
    }
    line = training_step.roofline(summary)
    assert "(output products alone, oneDNN): 100.0 GFLOP per CPU second" in line
    assert "reaches 75% of it, and is 40% of the step" in line
    assert "attention are 50%, clipping and optimiser 10%." in line


# --- the command ----------------------------------------------------------------------------------------------------


def test_command_writes_both_files(training_step, monkeypatch, tmp_path, threads, capsys):
    memory = {"idle_mib": 1.0, "peak_mib": 3.0, "above_idle_mib": 2.0}
    children = []
    monkeypatch.setattr(training_step.harness, "run_child", lambda script, words: children.append(words) or memory)
    training_step.main(["--quick", "--all-memory", "--threads", str(threads), "--output", str(tmp_path / "x" / "step")])
    data = json.loads((tmp_path / "x" / "step.json").read_text())
    names = [variant.name for variant in training_step.VARIANTS]
    concat = training_step.CONCAT.name
    larger = [training_step.PEER, training_step.OURS]
    assert list(data["memory"]) == [*names, concat]
    assert list(data["memory_of_larger_batch"]) == larger
    assert [words[-1] for words in children[::3]] == [*names, concat, *larger, *larger, *larger]
    assert children[::3] == children[1::3] == children[2::3]  # three processes run with the same options
    more, half = ["--batch-size", "32"], ["--vocabulary", "150"]  # 8 x 4 sentences, and half of 300 words
    assert [words[6:-2] for words in children[::3][-6:]] == [more, more, half, half, half + more, half + more]
    nothing = {"batch_mib": 2.0, "larger_batch_mib": 2.0, "growth_mib": 0.0}
    assert data["memory_growth"] == {name: {"150": nothing, "300": nothing} for name in larger}
    parts = [training_step.FLOOR, training_step.FLOOR_ONEDNN, training_step.OUTPUT_LAYER]
    assert list(data["time"][str(threads)]) == [*names, *parts]
    assert data["concat"][str(threads)]["cpu_ms"] > 0
    assert data["run"]["command"] == f"python benchmarks/training_step.py --quick --all-memory --threads {threads}"
    text = (tmp_path / "x" / "step.md").read_text()
    assert str(tmp_path) not in text
    assert text == capsys.readouterr().out
    assert all(f"| {name} |" in text for name in names)


def test_tables_are_written_as_they_are_measured(training_step, monkeypatch, tmp_path):
    """By default, the memory of each variant is measured last, in a separate process.

    If the command is stopped, earlier tables are kept.
    """
    children = []

    def stop_at_the_second(script, words):
        children.append(words[-1])
        if len(children) == 2:
            raise KeyboardInterrupt
        return {"idle_mib": 1.0, "peak_mib": 3.0, "above_idle_mib": 2.0}

    monkeypatch.setattr(training_step.harness, "run_child", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        training_step.main(["--quick", "--threads", "1", "--output", str(tmp_path / "step")])
    assert children == [variant.name for variant in training_step.VARIANTS[:2]]
    data = json.loads((tmp_path / "step.json").read_text())
    assert data["concat"]["1"]["cpu_ms"] > 0
    assert data["memory"] == {}
    assert "## Time, threads: 1" in (tmp_path / "step.md").read_text()


def test_memory_of_one_variant(training_step, threads, capsys):
    training_step.main(["--quick", "--memory-of", "wean_lstm"])
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    # This process is not fresh, and Linux counts pages with a delay, so only the order of magnitude is certain.
    assert answer["peak_mib"] > 0.9 * answer["idle_mib"] > 0
    assert answer["above_idle_mib"] == pytest.approx(
        answer["peak_mib"] - answer["idle_mib"], abs=0.16
    )  # both numbers are rounded


def test_idle_is_the_same_for_all_variants(training_step, monkeypatch):
    """The variant is measured after a step of fairseq's model with fairseq's loss and optimiser."""
    calls = []
    monkeypatch.setattr(training_step, "train", lambda variant, size, seed, steps: calls.append((variant, size)))
    monkeypatch.setattr(training_step.harness, "resident_mib", lambda: calls.append("idle") or 1.0)
    training_step.measure_memory(training_step.CONCAT, training_step.Size(), seed=1)
    peer = training_step.Variant("fairseq lstm", "lstm", "cross_entropy")
    assert calls == [(peer, training_step.TOY), "idle", (training_step.CONCAT, training_step.Size())]


def test_memory_is_the_median_of_the_processes(training_step, monkeypatch):
    """Idle memory and peak come from the process with the median peak above idle."""
    answers = [{"idle_mib": 1.0, "peak_mib": 1.0 + above, "above_idle_mib": above} for above in (7.0, 2.0, 3.0)]
    left = iter(answers)
    monkeypatch.setattr(training_step.harness, "run_child", lambda script, words: next(left))
    assert training_step.median_memory([]) == {**answers[2], "all_above_idle_mib": [7.0, 2.0, 3.0]}


def test_growth_with_the_batch_is_the_difference_of_the_peaks(training_step):
    """The growth is 30 - 10 for one row and 50 - 10 for the other."""
    rows = {
        "mine": {"25000": training_step.growth({"above_idle_mib": 10.0}, {"above_idle_mib": 30.0})},
        "peer": {"50000": training_step.growth({"above_idle_mib": 10.0}, {"above_idle_mib": 50.0})},
    }
    lines = training_step.growth_table(rows, 64)
    assert "batch 64, MiB | batch 512, MiB" in lines[3]
    assert lines[5:] == ["| mine | 25,000 | 10.0 | 30.0 | 20.0 |", "| peer | 50,000 | 10.0 | 50.0 | 40.0 |"]


def test_memory_only(training_step, monkeypatch, tmp_path, capsys):
    memory = {"idle_mib": 1.0, "peak_mib": 3.0, "above_idle_mib": 2.0}
    monkeypatch.setattr(training_step.harness, "run_child", lambda script, words: memory)
    training_step.main(["--quick", "--rounds", "0", "--batch-size", "3", "--output", str(tmp_path / "step")])
    data = json.loads((tmp_path / "step.json").read_text())
    assert (data["time"], data["size"]["batch_size"]) == ({}, 3)
    assert "Time" not in capsys.readouterr().out


# --- copying --------------------------------------------------------------------------------------------------------


def test_the_copying_benchmark_compares_the_three_systems(threads, tmp_path):
    copying = importlib.import_module("copying")
    copying.main(["--quick", "--threads", "1", "--length", "20", "--output", str(tmp_path / "copying")])
    data = json.loads((tmp_path / "copying.json").read_text())
    assert list(data["training"]["1"]) == list(data["decoding"]) == ["copynet", "rnnsearch", "enc_dec"]
    assert data["training"]["1"]["rnnsearch"]["cpu_ratio"] == 1.0
    assert all(len(times) == 2 for times in data["decoding"].values())  # 20 decoding steps, in two windows of ten
    # The paper adds W_c (16 x 8) and the selective read as an input of the GRU, for 8 hidden units and embeddings of 4.
    parameters = {name: row["parameters"] for name, row in data["training"]["1"].items()}
    assert parameters["copynet"] - parameters["rnnsearch"] == 16 * 8 + 3 * 8 * 16
    assert "copying.py --quick" in (tmp_path / "copying.md").read_text()


# --- granularity ----------------------------------------------------------------------------------------------------


def test_the_granularity_benchmark_compares_the_variants(monkeypatch, threads, tmp_path):
    granularity = importlib.import_module("granularity")
    memory = {"idle_mib": 1.0, "peak_mib": 3.0, "above_idle_mib": 2.0}
    children = []
    monkeypatch.setattr(granularity.harness, "run_child", lambda script, words: children.append(words) or memory)
    granularity.main(["--quick", "--threads", "1", "--output", str(tmp_path / "granularity")])
    data = json.loads((tmp_path / "granularity.json").read_text())
    names = [variant.name for variant in granularity.VARIANTS]
    assert [words[-1] for words in children] == names == list(data["memory"])
    whole, layers = data["time"]["1"]["whole step"], data["time"]["1"]["layers alone"]
    assert list(whole) == list(layers) == names
    assert whole["paraphrase_transformer"]["cpu_ratio"] == 1.0
    # Six heads have 8 weights and a bias each, and with cross-attention there are nine heads. DNPG is a different
    # network and is not compared.
    plain = whole["paraphrase_transformer"]["parameters"]
    more = {name: row["parameters"] - plain for name, row in whole.items() if name.startswith("C-DNPG")}
    assert set(more.values()) == {54, 81} and more["C-DNPG, as released"] == 81
    # A dictionary with ten words fewer saves 10 rows of 8 in two embeddings, and 10 biases.
    assert whole["C-DNPG, mean"]["parameters"] - layers["C-DNPG, mean"]["parameters"] == 10 * (2 * 8 + 1)
    assert "granularity.py --quick" in (tmp_path / "granularity.md").read_text()


def test_memory_of_one_granularity_variant(threads, capsys):
    importlib.import_module("granularity").main(["--quick", "--memory-of", "C-DNPG, mean"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["peak_mib"] > 0


# --- transformers ---------------------------------------------------------------------------------------------------


def test_the_benchmark_of_transformers_compares_all_families(monkeypatch, threads, tmp_path):
    transformers = importlib.import_module("transformer_families")
    memory = {"idle_mib": 1.0, "peak_mib": 3.0, "above_idle_mib": 2.0}
    monkeypatch.setattr(transformers.harness, "run_child", lambda script, words: memory)
    monkeypatch.setattr(transformers, "has_ctranslate2", lambda: False)
    monkeypatch.setattr(transformers.hugging_face, "is_installed", lambda: False)
    transformers.main(["--quick", "--threads", "1", "--output", str(tmp_path / "result")])
    data = json.loads((tmp_path / "result.json").read_text())
    steps, searches = ([row.name for row in rows] for rows in (transformers.TRAINED_STEPS, transformers.SEARCHES))
    assert all(list(summary) == [*steps, transformers.FLOOR] for summary in data["steps"].values())
    names = [*searches, transformers.FLOOR, transformers.FLOOR_INT8]
    if not int8_is_exact():  # the processor may lack the instructions for exact int8
        names = [name for name in names if "int8" not in name]
        assert "their rows are missing" in (tmp_path / "result.md").read_text()
    assert [list(summary) for _, summary in data["search"].values()] == [names] * 2
    assert list(data["memory"]) == steps
    assert "CTranslate2 is not installed" in (tmp_path / "result.md").read_text()


def test_hugging_face_takes_part_with_the_batches_of_the_others(workload, threads):
    """A training step lowers the loss of its batch.

    A search must return a start symbol and the requested number of words.
    """
    pytest.importorskip("transformers")
    families = importlib.import_module("transformer_families")
    size = families.TOY
    with workload.built_steps(families.PEERS, size, 1, 1, families.BeamSearchStep) as built:
        peer = built[families.PEER]
        for name, model in families.hugging_face_models(size).items():
            step = families.hugging_face.HuggingFaceStep(model, peer)
            sample = peer.sample(0)

            def loss(step=step, sample=sample):
                inputs = step.inputs(sample["net_input"])
                previous = sample["net_input"]["prev_output_tokens"]
                with torch.no_grad():
                    return step.model.eval()(**inputs, decoder_input_ids=previous, labels=sample["target"]).loss

            before = loss()
            model.train()
            assert set(step(0)) == set(workload.PHASES), name
            assert loss() < before, name
            assert step.num_parameters() == sum(weight.numel() for weight in model.parameters())
            search = families.hugging_face.HuggingFaceSearch(model, peer, families.BEAM, size.target_length)
            search(0)
            assert search.found.shape == (size.batch_size, 1 + size.target_length), name


def test_the_peer_has_the_sizes_of_our_transformer(workload, threads):
    """The parameters are counted by hand for width d, FFN width f, post-norm layers and one embedding per side."""
    transformers = importlib.import_module("transformer_families")
    size = transformers.TOY
    with workload.built_steps(transformers.PEERS, size, 1, 1) as steps:
        found = steps[transformers.PEER].num_parameters()
    d, f = size.dim, round(size.dim * 1024 / 450)
    attention, norm, feed_forward = 4 * (d * d + d), 2 * d, d * f + f + f * d + d
    each = (attention + feed_forward + 2 * norm) + (2 * attention + feed_forward + 3 * norm)
    assert found == 2 * size.vocabulary * d + size.layers * each


def test_a_search_says_how_near_it_is_to_its_products(threads):
    """30 of 60 ms are products, and with integer factors 10 of 40 ms."""
    transformers = importlib.import_module("transformer_families")
    times = {
        transformers.PEER: 60.0,
        "ours --int8-scores": 40.0,
        transformers.FLOOR: 30.0,
        transformers.FLOOR_INT8: 10.0,
    }
    summary = {
        name: {"cpu_ms": cpu, "wall_ms": cpu, "cpu_ratio": cpu / 60, "wall_ratio": cpu / 60}
        for name, cpu in times.items()
    }
    lines = transformers.search_table(32, summary)
    assert [line.split("|")[-2].strip() for line in lines[2:]] == ["50%", "25%", "100%", "100%"]


# --- essays ---------------------------------------------------------------------------------------------------------


def test_the_essay_benchmark_compares_pc_san_with_the_transformer(threads, tmp_path):
    essay_step = importlib.import_module("essay_step")
    essay_step.main(["--quick", "--threads", "1", "--output", str(tmp_path / "essay")])
    data = json.loads((tmp_path / "essay.json").read_text())
    times = data["time"]["1"]
    assert list(times) == [row.name for row in essay_step.VARIANTS]
    assert times["essay_transformer"]["cpu_ratio"] == 1.0
    # Each of the two layers has U, V_Q and V_C for width 8.
    parameters = {name: row["parameters"] for name, row in times.items()}
    assert parameters["pc_san"] - parameters["pc_san --context none"] == 2 * (8 * 8 + 8 + 8)
    assert "essay_step.py --quick" in (tmp_path / "essay.md").read_text()


def test_features_of_a_batch_come_from_the_files_of_the_cache(workload, tmp_path):
    essay_step = importlib.import_module("essay_step")
    size = essay_step.TOY
    workload.write_dictionaries(tmp_path, size.vocabulary)
    batches = workload.make_batches(size, 2, seed=1)
    step = essay_step.EssayStep(essay_step.VARIANTS[1], size, tmp_path, batches, seed=1)
    assert len(list((tmp_path / "features").glob("*/features.npy"))) == 1
    features = step.sample(1)["net_input"]["bert_features"]
    assert features.shape == (size.batch_size, size.source_length, essay_step.BERT_LAYERS, size.dim)
    # the last position is the end symbol, which has no features
    assert features[:, :-1].any(dim=-1).all() and not features[:, -1].any()
    assert "bert_features" not in batches[1]["net_input"]


# --- GPU ------------------------------------------------------------------------------------------------------------


def test_the_gpu_benchmark_runs_everything_and_claims_nothing_without_a_gpu(monkeypatch, threads, tmp_path):
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "DEVICE", torch.device("cpu"))
    monkeypatch.setattr(gpu.OnDevice, "device", torch.device("cpu"))
    gpu.main(["--quick", "--output", str(tmp_path / "gpu")])
    data = json.loads((tmp_path / "gpu.json").read_text())
    layer = data["tables"]["Output layer, float32"]
    assert {gpu.MATERIALISED, gpu.OURS} <= set(layer)
    assert max(layer[gpu.OURS]["off_by"]) < 1e-5
    assert max(data["tables"]["Output layer, bfloat16"][gpu.OURS]["off_by"]) < 0.05
    assert list(data["tables"]["Granularity-aware attention, whole step"]) == [
        "paraphrase_transformer",
        "C-DNPG, product",
    ]
    rows = {f"{title}: {name}": row for title, table in data["tables"].items() for name, row in table.items()}
    assert len(rows) > 40
    others = ("Liger-Kernel", "cut-cross-entropy")  # these libraries need a GPU
    assert not {name: row for name, row in rows.items() if "error" in row and not name.endswith(others)}
    assert data["tables"]["Whole training, --bf16"]["fairseq transformer"]["words_per_s"] > 0
    text = (tmp_path / "gpu.md").read_text()
    assert "nothing of a GPU was measured" in text


def test_what_does_not_run_is_named_and_the_others_are_measured(monkeypatch):
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "DEVICE", torch.device("cpu"))

    def broken(query, weight, target):
        raise ValueError("needs another machine")

    args = gpu.build_parser().parse_args(["--rounds", "1", "--warmup", "0"])
    losses = {gpu.OURS: gpu.output_losses()[gpu.OURS], "broken": broken}
    rows = gpu.measure_losses(losses, gpu.TOY, torch.float32, args)
    assert rows["broken"] == {"error": "ValueError: needs another machine"}
    assert rows[gpu.OURS]["wall_ms"] > 0


def test_peak_of_a_loss_counts_its_gradients(monkeypatch):
    """The gradients must be allocated in every measured step.

    The method numbers() must not keep the gradients that it computed.
    """
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "DEVICE", torch.device("cpu"))
    step = gpu.LossStep(gpu.output_losses()[gpu.MATERIALISED], gpu.TOY, torch.float32, seed=1)
    assert all(number.isfinite().all() for number in step.numbers())
    assert step.query.grad is None
    assert step.weight.grad is None


# --- all systems ----------------------------------------------------------------------------------------------------


def test_all_systems_of_the_recipe_are_timed(tmp_path, monkeypatch):
    systems = importlib.import_module("all_systems")
    recipe = (ROOT / "examples" / "all_systems.sh").read_text()
    assert {variant.arch for variant in systems.VARIANTS} == {*recipe.partition('all="')[2].partition('"')[0].split()}
    kinds = [variant for variant in systems.VARIANTS if variant.arch in ("lstm", "copynet", "copy_transformer", "fset")]
    monkeypatch.setattr(systems, "VARIANTS", kinds)
    systems.main(["--quick", "--output", str(tmp_path / "all_systems")])
    rows = json.loads((tmp_path / "all_systems.json").read_text())["time"]["1"]
    assert {*rows} == {variant.name for variant in kinds}
    assert rows["fairseq lstm"]["cpu_ratio"] == 1.0


def test_retrieved_pair_of_a_source_is_the_next_pair(workload):
    systems = importlib.import_module("all_systems")
    batch = workload.make_batches(replace(workload.TOY, batch_size=2), 1, seed=1)[0]
    words, targets = batch["net_input"]["src_tokens"].tolist(), batch["target"].tolist()
    paired = systems.with_pairs(batch, 299)["net_input"]
    for row in (0, 1):
        expected = [*words[row][:-1], 299, *words[1 - row][:-1], 299, *targets[1 - row]]
        assert paired["src_tokens"][row].tolist() == expected and paired["src_lengths"][row] == len(expected)
