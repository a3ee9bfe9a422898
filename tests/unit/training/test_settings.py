"""Test that wean-train refuses invalid settings before it writes files, and that settings can be stored in TOML."""

import tomllib
from pathlib import Path

import pandas as pd
import pytest

from tests.copy_contract import BASE, copy_task
from tests.model_contract import build_model, make_batch, make_task
from wean_fairseq.capabilities import capabilities_of
from wean_fairseq.errors import UserError
from wean_fairseq.fields import start_files
from wean_fairseq.ranges import MOST_PROCESSES
from wean_fairseq.training import base, cli, run, settings, tables
from wean_fairseq.training.call import train
from wean_fairseq.training.defaults import ARCHS_OF, VECTOR_ARCHS, main, options_for, sizes_for

PAIRS = "source,target\nA dog barks.,The dog is barking.\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a folder with a table of pairs, which is the working directory."""
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *arguments):
    """Return the one line that wean-train prints when it refuses its arguments."""
    files = sorted(Path().rglob("*"))
    try:
        status = cli.main(list(arguments))
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert said.err.startswith("wean-train: ")
    assert said.err.count("\n") == 1
    assert sorted(Path().rglob("*")) == files
    return said.err


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "data is missing: give a table with both sides, or two text files."),
        (["pairs.csv"], "output is missing: give a folder for the model."),
        (["--output", "model"], "data is missing"),
        (["pairs.csv", "b", "c", "--output", "model"], "data takes one file with both sides, or two text files."),
        (["nowhere.csv", "--output", "model"], "there is no file nowhere.csv"),
        (["pairs.csv", "--test", "nowhere.csv", "--output", "model"], "there is no file nowhere.csv"),
        ([".", "--output", "model"], ". is a folder: give your pairs as a table, or as two text files."),
        (["/dev/null", "--output", "model"], "/dev/null is a pipe or a device: give your pairs as a table"),
        (["pairs.csv", "--output", "pairs.csv"], "output pairs.csv is a file: give a folder."),
        (["pairs.csv", "--output", "model", "--work", "pairs.csv"], "work pairs.csv is a file: give a folder."),
        (["pairs.csv", "--output", "model", "--work", "model"], "which is replaced as a whole: give another folder."),
        (["pairs.csv", "--output", "model", "--work", "model/work"], "which is replaced as a whole"),
        (["pairs.csv", "--output", "a:b"], "output a:b has : or , or ${ in its name, which fairseq splits or replaces"),
        (["pairs.csv", "--output", "w,x"], "output w,x has : or , or ${ in its name"),
        (["pairs.csv", "--output", "m", "--work", "w,x"], "work w,x has : or , or ${ in its name"),
        (["pairs.csv", "--output", "m", "--work", "${HOME}"], "work ${HOME} has : or , or ${ in its name"),
        (["pairs.csv", "--output", "run/text", "--work", "run"], "has the name of another folder of run"),
        (["pairs.csv", "--output", "model", "--from", "nowhere"], "there is no model nowhere"),
        (["pairs.csv", "--output", "m", "--bert", "."], "bert is for the archs paraphrase_transformer and copy_transf"),
        (["pairs.csv", "--output", "m", "--bert", ".", "--arch", "copynet"], "bert is for the archs paraphrase_transf"),
        (["pairs.csv", "--output", "m", "--bert", "b", "--arch", "copy_transformer"], "there is no BERT directory 'b'"),
        (["pairs.csv", "--output", "m", "--bert", ""], "--bert is empty: give a path, or leave it out."),
        (["pairs.csv", "--output", "m", "--embedding-file", "v"], "there is no file v: give embedding_file a file"),
        (["pairs.csv", "--output", "m", "--embedding-file", ""], "--embedding-file is empty: give a path"),
        (["pairs.csv", "--output", "m", "--embedding-file", "v", "--arch", "srb"], "is for the archs wean_lstm, wean_"),
        (["pairs.csv", "--output", "m", "--embedding-file", "v", "--task", "essay"], "embedding_file is for the archs"),
        (
            ["pairs.csv", "--output", "m", "--embedding-file", "v", "--from", "old"],
            "is for a new model, and old has its",
        ),
        (["pairs.csv", "--output", "model", "--from", "pairs.csv"], "pairs.csv"),
        (
            ["pairs.csv", "--output", "model", "--from", "m", "--bpe", "9"],
            "bpe is that of m, whose text steps are used",
        ),
        (["pairs.csv", "--output", "model", "--old-test", "a", "b"], "old_test is the test set of a model that --from"),
        (
            ["pairs.csv", "--output", "model", "--arch", "bart"],
            "there is no arch bart for pairs: choose from wean_lstm, ",
        ),
        (
            ["pairs.csv", "--output", "model", "--arch", "copynets"],
            "there is no arch copynets for pairs (did you mean copynet?): choose from wean_lstm, ",
        ),
        (["pairs.csv", "--output", "model", "--unit", "bytes"], "invalid choice: 'bytes' (choose from 'joiner', "),
        (["pairs.csv", "--output", "model", "--case", "upper"], "invalid choice: 'upper' (choose from 'truecase', "),
        (["pairs.csv", "--output", "model", "--device", "tpu"], "invalid choice: 'tpu' (choose from 'cpu', 'cuda')"),
        (["pairs.csv", "--output", "model", "--rate", "nan"], "--rate must be a finite number above 0, but is nan."),
        (["pairs.csv", "--output", "model", "--rate", "-1"], "--rate must be a finite number above 0, but is -1.0."),
        (
            ["pairs.csv", "--output", "model", "--rate", "fast"],
            "argument --rate: 'fast' is not a number",
        ),
        (["pairs.csv", "--output", "model", "--task", "summary"], "invalid choice: 'summary' (choose from 'pairs', "),
        (
            ["pairs.csv", "--output", "model", "--arch", "mta_lstm"],
            "there is no arch mta_lstm for pairs (it is for the task essay): choose from wean_lstm, ",
        ),
        (
            ["pairs.csv", "--output", "model", "--task", "essay", "--arch", "copynet"],
            "there is no arch copynet for essay (it is for the task pairs): choose from mta_lstm, ",
        ),
        (["pairs.csv", "--output", "model", "--task", "essay", "--case", "truecase"], "case truecase is for sentence"),
        (["pairs.csv", "--output", "model", "--task", "essay", "--from", "nowhere"], "there is no model nowhere"),
        (
            ["pairs.csv", "--output", "model", "--search", "--beam x"],
            "search is '--beam x': argument --beam: 'x' is not a",
        ),
        (
            ["pairs.csv", "--output", "model", "--search=--prefix-size=2"],
            "is not a search option: choose from --beam, ",
        ),
        (
            ["pairs.csv", "--output", "model", "--search", "--beam 0"],
            "search is '--beam 0': argument --beam: '0' is",
        ),
        (["pairs.csv", "--output", "model", "--language", "de"], "language is for the unit moses: leave it out."),
        (["pairs.csv", "--output", "model", "--processes", "0"], f"'0' is not a whole number of 1 to {MOST_PROCESSES}"),
        (["pairs.csv", "--output", "model", "--processes", "99999"], f"not a whole number of 1 to {MOST_PROCESSES};"),
        (["pairs.csv", "--output", "model", "--epochs", "0"], "'0' is not a whole number of 1 to 2147483647"),
        (["pairs.csv", "--output", "model", "--seed", "x"], "'x' is not a whole number of 0 to 2147483647"),
        (["pairs.csv", "--output", "model", "--speed", "9"], "unrecognized arguments: --speed 9"),
        (["pairs.csv", "--output", "model", "--config", "no.toml"], "no.toml cannot be read"),
        (
            ["pairs.csv", "--output", "model", "--unit", "characters", "--bpe", "9"],
            "bpe splits words, and the unit characters has no words",
        ),
        (
            ["pairs.csv", "--output", "model", "--arch", "copy_transformer", "--width", "6"],
            "width must be a multiple of 4, the attention heads of copy_transformer, but is 6.",
        ),
    ],
)
def test_wrong_arguments_are_refused(here, capsys, arguments, message):
    assert message in refused(capsys, *arguments)


def test_a_gpu_that_is_not_there_is_refused(here, capsys, monkeypatch):
    monkeypatch.setattr(run.torch.cuda, "is_available", lambda: False)
    assert "there is no GPU" in refused(capsys, "pairs.csv", "--output", "model", "--device", "cuda")


def test_the_model_inside_a_run_directory_is_suggested(here, capsys):
    (here / "run" / "model").mkdir(parents=True)
    (here / "run" / "model" / "model.safetensors").touch()
    message = refused(capsys, "pairs.csv", "--output", "tuned", "--from", "run")
    assert "there is no model run: did you mean run/model?" in message


def test_folders_of_others_are_left_alone(here, capsys):
    for name in ("model", "model.work"):
        (here / name).mkdir()
        (here / name / "mine.txt").write_text("a user's file", encoding="utf-8")
        message = refused(capsys, "pairs.csv", "--output", "model")
        assert f"{name} exists, and was not written by this run" in message or f"{name} has files" in message
        (here / name / "mine.txt").unlink()
        (here / name).rmdir()


@pytest.mark.parametrize("content", [None, "", "a note\n", "A=1\n", "SEED=1\nno equals sign\n"])
def test_a_file_called_settings_does_not_make_a_work_folder(here, capsys, content):
    """With a table without rows, the folder of the user was deleted."""
    settings = here / "model.work" / "settings"
    settings.parent.mkdir()
    settings.mkdir() if content is None else settings.write_text(content, encoding="utf-8")
    (here / "pairs.csv").write_text("source,target\n", encoding="utf-8")
    message = refused(capsys, "pairs.csv", "--output", "model")
    assert "model.work has files that are not of wean-train: give another --work, or move them." in message
    assert list(settings.parent.iterdir()) == [settings]
    assert settings.is_dir() if content is None else settings.read_text(encoding="utf-8") == content


def test_a_folder_that_cannot_be_written_is_named(here, capsys, monkeypatch):
    # for root, every folder is writable, so access() is replaced
    monkeypatch.setattr(run.os, "access", lambda *_: False)
    assert "model cannot be written" in refused(capsys, "pairs.csv", "--output", "model")


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "pairs.csv is empty."),
        ("long,short\n", "pairs.csv"),
        ("long,short\na b,c d\n", "there must be 10 at least"),
        ("a\nb\nc\n", "pairs.csv has one column"),
        ("long;short;more\n" + "a b;c d;e f\n" * 20, "pairs.csv does not tell which columns are the sentences"),
        ("long,short\n" + "same text,same text\n" * 30, "the same text on both sides"),
        ('{"long": ["a"], "short": 3}\n' * 20, "pairs.csv"),
        ("\0\1\2" * 50, "pairs.csv"),
    ],
)
def test_unusable_tables_are_refused(here, capsys, content, message):
    (here / "pairs.csv").write_text(content, encoding="utf-8")
    assert cli.main(["pairs.csv", "--output", "model", "--device", "cpu"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("wean-train: error: ")
    assert message in last
    assert [path.name for path in here.iterdir()] == ["pairs.csv"]


# --- the settings file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epoch = 3", "unknown setting epoch (did you mean epochs?): choose from data, output, work, from, "),
        ("epochs = 'many'", "epochs is 'many': expected `int | null`, got `str`."),
        ("epochs = 0", "epochs is 0: expected `int` >= 1."),
        ("epochs = true", "epochs is True: expected `int | null`, got `bool`."),
        ("rate = nan", "--rate must be a finite number above 0, but is nan."),
        ("rate = inf", "--rate must be a finite number above 0, but is inf."),
        ("case = 'Title'", "case is 'Title': choose from truecase, lowercase, keep."),
        ("arch = 'bart'", "there is no arch bart for pairs: choose from wean_lstm, "),
        ("data = []", "data is missing"),
        ("data = ['a', 'b', 'c']", "data takes one file with both sides, or two text files."),
        ("[data]\nfile = 'a'", "data is {'file': 'a'}: expected `str | array`, got `object`."),
        ("epochs 3", "is not TOML"),
        ("epochs = 3\nepochs = 4", "is not TOML"),
        ("\udc80", "is not TOML"),
        ("x = " + "[" * 10_000, "is not TOML"),
        (".".join(["a"] * 20_000) + " = 1", "run.toml cannot be read (File too large)"),
        ('work = "a\\u0000b"', "a file name has the character NUL"),
        (f"epochs = 0x{'f' * 5000}", "epochs is a value of type int: "),  # Python writes at most 4,300 digits
        (f"search = '{'a' * 20_000}'", "it has more than 10,000 characters"),
    ],
)
def test_wrong_settings_files_are_refused(here, capsys, content, message):
    data = "" if "data" in content else "data = 'pairs.csv'\n"
    text = f"{data}output = 'model'\n{content}\n"
    (here / "run.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert message in refused(capsys, "--config", "run.toml")


def test_options_replace_the_settings_of_a_file(here):
    (here / "sub").mkdir()
    (here / "sub" / "run.toml").write_text("data = '../pairs.csv'\noutput = 'm'\nepochs = 3\nrate = 1\n")
    read = settings.read_file(Path("sub/run.toml"))
    built = settings.build_settings(read | settings.read_settings({"epochs": 5, "output": "other"}))
    assert (built.data, built.output, built.epochs, built.rate) == ("pairs.csv", "other", 5, 1.0)
    assert built.work_folder == Path("other.work")


def test_a_name_that_begins_with_a_dash_is_no_option(here):
    """Otherwise the programs that wean-train calls would read the name as an option."""
    given = {"data": ["-a.src", "b.tgt"], "output": "-m", "embedding_file": "-v", "test": 5, "search": "--beam 2"}
    (here / "-v").touch()
    built = settings.build_settings(settings.read_settings({**given, "arch": "wean_lstm"}))
    assert (built.data, built.output, built.embedding_file) == ([f"{here}/-a.src", "b.tgt"], f"{here}/-m", f"{here}/-v")
    assert (str(built.work_folder), built.test, built.search) == (f"{here}/-m.work", 5, "--beam 2")


def test_written_settings_are_read_again_unchanged(here):
    given = settings.Settings(
        data=['a "b".src', "täß\x7f.tgt"],
        output="runs/model",
        columns='a,"b, c"',
        unit="joiner",
        bpe=0,
        valid=20,
        test=["t.csv"],
        case="keep",
        arch="copynet",
        rate=1e-05,
        width=8,
    )
    (here / "runs" / "model").mkdir(parents=True)
    file = here / "runs" / "model" / "run.toml"
    file.write_text(settings.write_toml(given, Path("runs/model")), encoding="utf-8")
    assert settings.build_settings(settings.read_file(Path("runs/model/run.toml"))) == given


def test_python_names_the_setting_from_with_an_underscore(here):
    """``from`` is a keyword of Python, so its argument is called ``from_``.

    The settings file and the command call it ``from``.
    """
    with pytest.raises(UserError, match="there is no model nowhere"):
        train("pairs.csv", "model", from_="nowhere")


def test_an_unknown_argument_of_the_function_is_named(here):
    with pytest.raises(UserError, match=r"unknown setting epoch \(did you mean epochs\?\): choose from data, output, "):
        train("pairs.csv", "model", epoch=3)
    with pytest.raises(UserError, match="data is 7: expected"):
        train(7, "model")
    with pytest.raises(UserError, match="config is 5: give the path of a settings file"):
        train("pairs.csv", "model", config=5)


@pytest.mark.parametrize("given", [("pairs.csv", "o\0"), ("p\0", "model"), (["pairs.csv", "\0"], "model")])
def test_a_name_with_the_character_nul_is_refused(here, given):
    with pytest.raises(UserError, match="a file name has the character NUL, which no file has"):
        train(*given)
    assert [path.name for path in here.iterdir()] == ["pairs.csv"]


@pytest.mark.parametrize("name", ["output", "work", "columns", "language", "unit", "epochs", "test", "search"])
def test_values_that_cannot_be_written_are_refused(here, name):
    nested: list = []
    nested.append(nested)
    for value in ("\ud800", ["a", "\udfff\ud800"], nested):
        with pytest.raises(UserError, match=f"{name} is "):
            train(**{"data": "pairs.csv", "output": "model", name: value})
    assert [path.name for path in here.iterdir()] == ["pairs.csv"]


# --- tables in memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["p\udcff.csv", ["p.src", "p\udcff.tgt"]])
def test_a_name_that_toml_cannot_hold_is_left_out(here, data):
    """The settings file could not be read again."""
    made = settings.build_settings({"data": data, "output": "m", "device": "cpu"})
    text = settings.write_toml(made, Path("m"))
    assert "# The setting data is not valid UTF-8, which TOML requires: give it as an option.\n" in text
    assert "data" not in tomllib.loads(text)


def test_data_frames_are_saved_by_split(here):
    """The file has one JSON object per row, in which NaN is null and text of other scripts is not escaped."""
    frame = pd.DataFrame({"a": ["Zoë", None], "b": ["x", "y"]})
    assert tables.save_tables(frame, here / "one") == {"data": str(here / "one" / "data.jsonl")}
    assert (here / "one" / "data.jsonl").read_text(encoding="utf-8") == '{"a":"Zoë","b":"x"}\n{"a":null,"b":"y"}\n'
    assert tables.save_tables(frame, here / "one") == {"data": str(here / "one" / "data.jsonl")}
    with pytest.raises(UserError, match="was saved from another table"):
        tables.save_tables(frame[:1], here / "one")
    for number, name in enumerate(["validation", "valid", "dev", "val"]):
        saved = tables.save_tables({"train": frame, name: frame[:1]}, here / str(number))
        assert sorted(saved) == ["data", "valid"]
        assert Path(saved["valid"]).read_text(encoding="utf-8") == '{"a":"Zoë","b":"x"}\n'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, ""),
        ({"test": pd.DataFrame()}, ""),
        ({"train": [("a", "b")]}, ""),
        ({"train": pd.DataFrame(), "extra": 7}, "has the split 'extra', but the names of splits are train, validation"),
        ({"train": pd.DataFrame(), 3: pd.DataFrame()}, "has the split 3, but the names of splits are train"),
        (
            {"train": pd.DataFrame(), "dev": pd.DataFrame(), "validation": pd.DataFrame()},
            "has dev and validation, which both mean the split valid",
        ),
    ],
)
def test_other_mappings_are_refused(here, data, says):
    with pytest.raises(UserError, match=f"{says}.*give train, validation and test"):
        train(data, "model", device="cpu")
    assert [path.name for path in here.iterdir()] == ["pairs.csv"]


def test_a_split_is_a_table_or_a_setting(here):
    frame = pd.DataFrame({"a": ["x"], "b": ["y"]})
    with pytest.raises(UserError, match="valid is a setting and a key of the data: leave one of them out"):
        train({"train": frame, "val": frame}, "model", valid=5, device="cpu")
    assert [path.name for path in here.iterdir()] == ["pairs.csv"]


def test_a_frame_that_is_no_table_is_refused(here):
    with pytest.raises(UserError, match=r"the table cannot be saved as JSON .*: give columns of text, each once"):
        train(pd.DataFrame([["x", "y"]], columns=["a", "a"]), "model", device="cpu")


def test_a_table_is_not_saved_in_a_folder_of_others(here):
    (here / "model.work").mkdir()
    (here / "model.work" / "mine.txt").touch()
    with pytest.raises(UserError, match="has files that are not of wean-train"):
        train(pd.DataFrame({"a": ["x"], "b": ["y"]}), "model", device="cpu")
    assert [path.name for path in (here / "model.work").iterdir()] == ["mine.txt"]


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_sizes_follow_the_number_of_pairs():
    """The expected sizes are in the table of docs/own_pairs.md, and were measured in results/few_pairs_*.json."""
    assert sizes_for(1999) == (64, 40, 0.003, "copynet")
    assert sizes_for(2000) == (64, 30, 0.003, "copynet")
    assert sizes_for(10_000) == (128, 25, 0.002, "copynet")
    assert sizes_for(50_000) == (256, 8, 0.001, "wean_lstm")
    assert main(["sizes", "10000", "pairs"]) == "128 25 0.002 copynet"
    assert main(["sizes", "10000", "essay"]) == "128 25 0.002 essay_transformer_small"


@pytest.fixture
def essays(tmp_path):
    """Return prepared text with at most 6 topics, and essays of 10 words on average."""
    for split, topics in (("train", "a b c"), ("valid", "a b c d e f"), ("test", "a")):
        (tmp_path / f"{split}.src").write_text(f"{topics}\na\n", encoding="utf-8")
    (tmp_path / "train.tgt").write_text(f"{'x ' * 6}\n{'x ' * 14}\n", encoding="utf-8")
    return tmp_path


def test_lengths_of_essays_are_those_of_the_text(essays):
    """The expected lengths are 11 (the mean of 10 words and the end symbol), half of it, and twice of it."""
    chosen = options_for("mta_lstm", "8", "0.003", essays)
    search = " ".join(chosen.search)
    assert search.startswith("--max-topics 6 --essay-length 11 --beam 5 --max-len-a 0 --max-len-b 22 --min-len 5 ")
    assert " ".join(chosen.sizes).endswith("--topic-slots 6 --dropout 0.3 --max-topics 6")


@pytest.mark.parametrize(
    ("task", "arch"),
    [(task, arch) for task, name in (("paraphrase", "pairs"), ("topic_essay", "essay")) for arch in ARCHS_OF[name]],
)
def test_an_arch_takes_its_default_options(task, arch, essays):
    """fairseq's parser must accept the options that are chosen for every arch and its search."""
    import wean_fairseq

    wean_fairseq.register()
    from fairseq import options

    chosen = options_for(arch, "8", "0.003", essays)
    line = ["data", "--task", task, "--arch", arch, "--criterion", chosen.criterion, *chosen.sizes]
    line += chosen.optimisation
    assert options.parse_args_and_arch(options.get_training_parser(), line).lr == [0.003]
    line = ["data", "--task", task, "--path", "none", *chosen.search]
    assert options.parse_args_and_arch(options.get_generation_parser(), line).beam == 5


def test_pairs_train_every_arch_that_needs_nothing_else():
    """The omitted archs need word labels (dnpg), similar pairs (fset) or topics of essays (the others)."""
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY

    ours = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.models")}
    essays = {arch for arch in ours if ARCH_MODEL_NAME_REGISTRY[arch] in ("mta_lstm", "sc_lstm", "pc_san", "ppg")}
    assert set(ARCHS_OF["pairs"]) == ours - essays - {"dnpg", "fset", "essay_transformer", "essay_transformer_small"}


def test_word_vectors_are_for_the_archs_with_the_option():
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY

    def has_option(arch):
        return hasattr(MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY.get(arch, arch)], "embedding_file")

    assert set(VECTOR_ARCHS) == set(filter(has_option, ARCHS_OF["pairs"]))


@pytest.mark.parametrize("arch", ARCHS_OF["pairs"])
def test_unknown_words_are_replaced_by_attention_unless_the_model_copies(arch, tmp_path):
    """--replace-unk needs a model with attention.

    A copying model does not need it, because it writes unknown words itself.
    """
    from fairseq import options
    from fairseq.models import ARCH_MODEL_REGISTRY

    words = options_for(arch, "8", "0.003", tmp_path)
    line = ["data", "--task", "paraphrase", "--arch", arch, "--criterion", words.criterion, *words.sizes]
    args = vars(options.parse_args_and_arch(options.get_training_parser(), line))
    task = copy_task() if ARCH_MODEL_REGISTRY[arch].capabilities.copies else make_task()
    model, batch = build_model(**args | {"task": task}), make_batch(dictionary_size=BASE)
    attention = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])[1]["attn"][0]
    copies = capabilities_of(model).copies
    assert ("--replace-unk" in words.search) == (attention is not None and not copies)


def test_a_training_continues_from_every_arch():
    """A continued training passes only options that differ from the preset of the arch.

    Most archs have the option --embed-dim, and the others have --encoder-embed-dim.
    """
    for arch in (arch for archs in ARCHS_OF.values() for arch in archs):
        preset = vars(base._defaults(arch))
        width = "encoder_embed_dim" if "encoder_embed_dim" in preset else "embed_dim"
        assert base._given(preset, preset) == []
        # only a new model reads vectors from a file
        vectors = dict.fromkeys(preset.keys() & start_files(), "deleted.vec")
        assert base._given(preset | vectors | {width: 7}, preset) == [f"--{width.replace('_', '-')}", "7"]


@pytest.mark.parametrize("option", ["--output", "--work", "--from"])
def test_an_empty_path_on_the_command_line_is_refused(option, tmp_path, capsys):
    """Otherwise an empty shell variable would select another model than the user wants."""
    words = ["pairs.csv", "--output", str(tmp_path / "model")]
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main([*words, option, ""])
    assert f"error: {option} is empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
