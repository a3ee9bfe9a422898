"""Test averages against the closed form, and check that exports load without a changed bit.

Averages and exports refuse incompatible input.
"""

import json
import re

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from tests.fuzz.models import data_folder, save_random_model
from tests.fuzz.wrong_types import GONE, places_of, spoil
from tests.model_contract import make_dictionary
from wean_fairseq.checkpoints import cli, dictionaries
from wean_fairseq.checkpoints.average import average, newest
from wean_fairseq.checkpoints.export import export, read_export, read_exported_text
from wean_fairseq.checkpoints.loading import StoredModel
from wean_fairseq.checkpoints.reading import Hostile, read_checkpoint, same_tensors
from wean_fairseq.data.given_text import compare_text
from wean_fairseq.errors import UserError
from wean_fairseq.storage.cli import main_checksum
from wean_fairseq.storage.files import sha256_of
from wean_fairseq.storage.manifest import Damaged, Manifest, check_file
from wean_fairseq.storage.search import SEARCH_FILE, kept_search, write_search
from wean_fairseq.text.settings import Text, TextSettings, read_text_settings

WORDS = make_dictionary(6)
DESCRIBED = {"src": dictionaries.fingerprint(WORDS), "tgt": dictionaries.fingerprint(WORDS)}


def state(value=1.0, updates=7, options=None, number=3, task_state=None, dtype=torch.float32):
    embedding = torch.full((4, 3), value, dtype=dtype)
    return {
        "args": None,
        "cfg": {
            "model": {"_name": "wean_lstm", "embed_dim": 3, "ärger": "ü", **(options or {})},
            "task": {"_name": "paraphrase", "data": "nowhere", "source_lang": "src", "target_lang": "tgt"},
            "criterion": {"_name": "query_embedding"},
            "checkpoint": {"save_dir": "secret/place"},
        },
        "model": {
            "encoder.embed": embedding,
            "decoder.embed": embedding,
            "decoder.transposed": torch.arange(6.0).view(2, 3).t() * value,
            "decoder.number": torch.tensor(number),
        },
        "optimizer_history": [{"num_updates": updates, "optimizer_name": "A", "lr_scheduler_state": {"best": None}}],
        "task_state": {"dictionaries": DESCRIBED} if task_state is None else task_state,
        "extra_state": {"train_iterator": {"epoch": 2}},
        "last_optimizer_state": {"state": {}},
    }


def saved(path, **options):
    torch.save(state(**options), path)
    return path


# --- averages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_an_average_is_the_mean(tmp_path, dtype):
    """Check the mean (1 + 2 + 6) / 3 = 3.

    1 + 2048 is not representable in half precision, so the sum must have a wider type.
    """
    values = (1.0, 2.0, 6.0) if dtype is not torch.float16 else (1.0, 2048.0, 2050.0)
    paths = [saved(tmp_path / f"{value}.pt", value=value, dtype=dtype) for value in values]
    average(paths, tmp_path / "average.pt")
    found = read_checkpoint(tmp_path / "average.pt")
    expected = torch.full((4, 3), sum(values) / 3).to(dtype)
    assert torch.equal(found["model"]["encoder.embed"], expected)
    assert found["model"]["decoder.number"] == 3
    assert same_tensors(found["model"]) == {"decoder.embed": "encoder.embed"}
    assert "last_optimizer_state" not in found
    assert check_file(tmp_path / "average.pt", "unused")


OTHER_WORDS = {"dictionaries": {"src": {"size": 4, "words": "other", "sorted": "other"}}}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"options": {"embed_dim": 5}}, "embed_dim is 3 in the one and 5 in the other"),
        ({"options": {"_name": "copynet"}}, "name is wean_lstm in the one and copynet in the other"),
        ({"options": {"more": True}}, "more is None in the one and True in the other"),
        ({"number": 4}, "decoder.number holds whole numbers, and they differ"),
        ({"dtype": torch.float16}, "they differ in decoder.embed"),
        ({"task_state": OTHER_WORDS}, "they were trained with different dictionaries"),
    ],
)
def test_checkpoints_of_different_models_are_not_averaged(tmp_path, other, message):
    paths = [saved(tmp_path / "a.pt"), saved(tmp_path / "b.pt", **other)]
    with pytest.raises(UserError, match=message):
        average(paths, tmp_path / "average.pt")
    assert not (tmp_path / "average.pt").exists()


def test_a_checkpoint_that_diverged_is_named_and_not_averaged(tmp_path):
    paths = [saved(tmp_path / "a.pt"), saved(tmp_path / "b.pt", value=float("nan"))]
    for given in (paths, paths[::-1]):
        with pytest.raises(UserError, match=r"b\.pt has NaN or infinity in encoder\.embed, because .*: average others"):
            average(given, tmp_path / "average.pt")
    assert not (tmp_path / "average.pt").exists()


def test_an_average_needs_two_and_a_name_of_its_own(tmp_path):
    path = saved(tmp_path / "a.pt")
    with pytest.raises(UserError, match="two checkpoints or more"):
        average([path], tmp_path / "b.pt")
    with pytest.raises(UserError, match="is one of the checkpoints to average"):
        average([path, path], tmp_path / "." / "a.pt")


@pytest.mark.parametrize("name", ["average/", "checksums.sha256"])
def test_an_average_has_the_name_of_a_file(tmp_path, name):
    """A name with a slash at its end gave a file, and the list of checksums was replaced."""
    saved(tmp_path / "a.pt")
    with pytest.raises(UserError, match=f"{name} is not the name of a checkpoint: give one such as average.pt"):
        average([tmp_path / "a.pt", tmp_path / "a.pt"], f"{tmp_path}/{name}")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_checkpoint_that_is_given_twice_is_named(tmp_path, caplog):
    path, other = saved(tmp_path / "a.pt"), saved(tmp_path / "b.pt", value=4.0)
    (tmp_path / "link.pt").symlink_to(path)
    average([path, other], tmp_path / "average.pt")
    assert caplog.text == ""
    average([path, other, tmp_path / "link.pt"], tmp_path / "average.pt")
    assert (
        f"{tmp_path / 'link.pt'} is given more than once, so that the average counts it more than once" in caplog.text
    )
    (tmp_path / "copy.pt").write_bytes(path.read_bytes())
    average([path, other, tmp_path / "copy.pt"], tmp_path / "average.pt")
    assert (
        f"{tmp_path / 'copy.pt'} has the same content as {path}, so that the average counts it more than once"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("seeds", "start", "other"),
    [
        ((1, 2, 1), {}, 1),
        ((1, None, 2), {"finetune_from_model": None, "restore_file": "checkpoint_last.pt"}, 2),
        ((3, 3, 3), {}, None),
        ((1, 2, 3), {"finetune_from_model": "start.pt"}, None),
        ((1, 2, 3), {"continue_once": "start.pt"}, None),
        ((1, 2, 3), {"restore_file": "folder/start.pt"}, None),
        ((1, 2, 3), {"restore_file": "folder/checkpoint_last.pt"}, None),
        ((1, 1, 2), {"restore_file": "secret/place/checkpoint_last.pt"}, 2),
        ((1, 1, 2), {"restore_file": 5, "save_dir": 7}, None),
    ],
    ids=["others", "unknown", "same", "finetuned", "continued", "restored", "restored-last", "resumed", "numbers"],
)
def test_a_warning_about_an_average_of_separate_trainings(tmp_path, caplog, seeds, start, other):
    """Trainings that continue from the same model may have different seeds. Old checkpoints may not have a seed."""
    paths = [tmp_path / f"{number}.pt" for number in range(3)]
    for path, seed in zip(paths, seeds, strict=True):
        content = state()
        content["cfg"] |= {"common": {} if seed is None else {"seed": seed}}
        content["cfg"]["checkpoint"] |= start
        torch.save(content, path)
    average(paths, tmp_path / "average.pt")
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        f"{paths[0]} was trained with --seed 1 and {paths[place]} with --seed 2" for place in [other] if place
    ]


def test_the_newest_are_of_different_updates_and_no_averages(tmp_path):
    for name, updates in (("checkpoint1.pt", 10), ("checkpoint2.pt", 20), ("checkpoint3.pt", 30)):
        saved(tmp_path / name, updates=updates)
    saved(tmp_path / "checkpoint_best.pt", updates=20)
    saved(tmp_path / "checkpoint_last.pt", updates=30)
    average([tmp_path / "checkpoint1.pt", tmp_path / "checkpoint3.pt"], tmp_path / "checkpoint_average.pt")
    assert [path.name for path in newest(tmp_path, 2)] == ["checkpoint3.pt", "checkpoint2.pt"]
    with pytest.raises(UserError, match="checkpoints of 3 different updates, but --last 4"):
        newest(tmp_path, 4)


# --- exports --------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for side in ("src", "tgt"):
        WORDS.save(str(folder / f"dict.{side}.txt"))
    return folder


@pytest.fixture
def exported(tmp_path, data):
    export(saved(tmp_path / "a.pt", value=0.3), tmp_path / "export", data)
    return tmp_path / "export"


def test_an_export_loads_back_identically(exported, tmp_path):
    names = {"model.safetensors", "config.json", "dict.src.txt", "dict.tgt.txt", "README.md", "checksums.sha256"}
    assert {path.name for path in exported.iterdir()} == names
    before = read_checkpoint(tmp_path / "a.pt")
    after = checkpoint_utils.load_checkpoint_to_cpu(str(exported / "model.safetensors"), {"embed_dim": 8})
    assert after["model"].keys() == before["model"].keys()
    assert all(torch.equal(after["model"][name], tensor) for name, tensor in before["model"].items())
    assert same_tensors(after["model"]) == {"decoder.embed": "encoder.embed"}
    assert after["cfg"].task.data == str(exported)
    assert after["cfg"].model == before["cfg"]["model"] | {"embed_dim": 8}
    assert after["optimizer_history"][-1]["num_updates"] == 7
    assert Dictionary.load(str(exported / "dict.src.txt")).symbols == WORDS.symbols


@pytest.mark.parametrize("languages", [("zh", "en"), ("en", "zh")])
def test_an_export_keeps_the_order_of_the_sides(tmp_path, caplog, languages):
    """config.json sorts the sides by name. Without their order, a model would be reported as used backwards."""
    for side in languages:
        WORDS.save(str(tmp_path / f"dict.{side}.txt"))
    content = state(task_state={"dictionaries": {side: dictionaries.fingerprint(WORDS) for side in languages}})
    content["cfg"]["task"] |= dict(zip(("source_lang", "target_lang"), languages, strict=True))
    torch.save(content, tmp_path / "a.pt")
    export(tmp_path / "a.pt", tmp_path / "export", tmp_path)
    described = read_export(tmp_path / "export" / "model.safetensors")["task_state"]["dictionaries"]
    assert list(described) == list(languages)
    dictionaries.check(described, dict.fromkeys(languages, WORDS), "export", "bin")
    assert "EXCHANGED" not in caplog.text


def test_an_export_without_task_state_is_read(exported):
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    (exported / "config.json").write_text(json.dumps(config | {"task_state": None}), encoding="utf-8")
    (exported / "checksums.sha256").unlink()
    assert read_export(exported / "model.safetensors")["task_state"] is None


def test_the_card_counts_the_words_of_the_target(tmp_path, data):
    target = make_dictionary(9)
    target.save(str(data / "dict.tgt.txt"))
    described = DESCRIBED | {"tgt": dictionaries.fingerprint(target)}
    export(saved(tmp_path / "a.pt", task_state={"dictionaries": described}), tmp_path / "export", data)
    assert "| words in the dictionary | 9 |" in (tmp_path / "export" / "README.md").read_text(encoding="utf-8")


def test_an_export_replaces_only_an_older_export(exported, tmp_path, data):
    newer = saved(tmp_path / "b.pt", value=0.7)
    with pytest.raises(UserError, match="has files already"):
        export(newer, exported, data)
    (exported / "mine.txt").write_text("a user's file")
    with pytest.raises(UserError, match=r"has files that are not of its model \(mine.txt\)"):
        export(newer, exported, data, overwrite=True)
    assert (exported / "mine.txt").read_text() == "a user's file"
    (exported / "mine.txt").unlink()
    export(newer, exported, data, overwrite=True)
    assert read_export(exported)["model"]["encoder.embed"].unique().tolist() == pytest.approx([0.7])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".wean-")]


@pytest.mark.parametrize("name", ["README.md", "config.json", "ctranslate2/config.json"])
def test_an_export_does_not_replace_an_edited_file(exported, tmp_path, data, name):
    """A repeated recipe replaced the model card that a user had completed."""
    (exported / "ctranslate2").mkdir()
    (exported / "ctranslate2" / "config.json").write_text("{}")
    assert main_checksum([str(exported / "ctranslate2" / "config.json")]) == 0
    before = (exported / name).read_text(encoding="utf-8")
    (exported / name).write_text(f"{before}edited", encoding="utf-8")
    with pytest.raises(
        UserError, match=rf"{name} has changed since .* move it elsewhere, because a new model replaces"
    ):
        export(tmp_path / "a.pt", exported, data, overwrite=True)
    assert (exported / name).read_text(encoding="utf-8") == f"{before}edited"
    (exported / name).rename(tmp_path / "mine")
    export(tmp_path / "a.pt", exported, data, overwrite=True)
    assert "edited" not in (exported / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["notes.md", "dict.notes.txt", "ctranslate2/my_notes.txt", "ctranslate2/deep/config.json", "README.md/my"]
)
def test_an_export_does_not_replace_foreign_files_with_a_checksum_or_in_a_subfolder(exported, data, tmp_path, name):
    (exported / "ctranslate2").mkdir()
    (exported / "ctranslate2" / "config.json").write_text("{}")
    assert main_checksum([str(exported / "ctranslate2" / "config.json")]) == 0
    export(tmp_path / "a.pt", exported, data, overwrite=True)
    path = exported / name
    if path.parent.name == "README.md":
        path.parent.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a user's file")
    assert main_checksum([str(path)]) == 0
    with pytest.raises(UserError, match="has files that are not of its model"):
        export(tmp_path / "a.pt", exported, data, overwrite=True)
    assert path.read_text() == "a user's file"


def test_an_export_replaces_no_folder_of_data_or_checkpoints(tmp_path, data):
    """wean-checksum and trainings write checksums into folders of data or checkpoints, as exports do."""
    (tmp_path / "ck").mkdir()
    path = saved(tmp_path / "ck" / "a.pt")
    Manifest(data).confirm({file.name: sha256_of(file) for file in data.iterdir()})
    Manifest(path.parent).confirm({path.name: sha256_of(path)})
    for folder in (data, path.parent):
        before = sorted(folder.iterdir())
        with pytest.raises(UserError, match="is not an exported model"):
            export(path, folder, data, overwrite=True)
        assert sorted(folder.iterdir()) == before


def test_an_export_never_replaces_the_current_directory(tmp_path, data, monkeypatch):
    """Test that the directory of a shell stays, because no command could read its files after it was replaced."""
    path = saved(tmp_path / "a.pt")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"here cannot be written \(it would replace the current directory\): choose"):
        export(path, ".", data)
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "here").samefile(".")
    export(path, "model", data)
    assert (tmp_path / "here" / "model" / "model.safetensors").is_file()


def test_an_export_does_not_tell_where_it_was_made(exported):
    text = (exported / "config.json").read_text(encoding="utf-8")
    assert "secret/place" not in text and "nowhere" not in text
    assert "ärger" in text


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_changed_export_is_refused(exported, name):
    content = (exported / name).read_bytes()
    (exported / name).write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(Damaged, match=rf"{name} has changed since"):
        read_export(exported / "model.safetensors")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_an_export_without_checksums_is_refused_where_it_is_no_export(exported, name):
    (exported / "checksums.sha256").unlink()
    (exported / name).write_bytes((exported / name).read_bytes()[:-20])
    with pytest.raises(Damaged, match="is damaged, or was not written by wean-export"):
        read_export(exported / "model.safetensors")


def test_an_export_that_lost_a_file_is_refused(tmp_path, data, prepared):
    """Test an export without its codes or its search, with which the model would produce different output."""
    folder = tmp_path / "export"
    export(saved(tmp_path / "a.pt"), folder, data, prepared)
    names = [path.name for path in folder.iterdir() if path.name != "checksums.sha256"]
    assert set(names) >= {"bpe.codes", "text.json", "example.txt", "dict.src.txt", "dict.tgt.txt"}
    for name in names:
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(UserError, match=f"has lost {name}|there is no .*{name}"):
            read_export(folder / "model.safetensors")
        (folder / name).write_bytes(content)
    (folder / "checksums.sha256").open("a").write(f"{'0' * 64}  ../a.pt\n")
    with pytest.raises(Damaged, match=r"has lost \.\./a\.pt"):
        read_export(folder / "model.safetensors")


def test_weights_with_another_name_have_a_checksum_too(exported, tmp_path):
    """Weights without a checksum were all alike, so outputs of wean-generate were continued with other weights."""
    weights = exported / "other.safetensors"
    weights.write_bytes((exported / "model.safetensors").read_bytes())
    with pytest.raises(Damaged, match=rf"^{weights} is not in .*checksums\.sha256: move it elsewhere, or export"):
        read_export(weights)
    (exported / "checksums.sha256").unlink()
    read_export(weights)
    assert StoredModel(weights).identity == StoredModel(exported).identity == sha256_of(weights)
    weights.write_bytes(b"changed")
    assert StoredModel(weights).identity != StoredModel(exported).identity


def test_an_export_whose_checksums_lack_a_file_is_refused(tmp_path, data, prepared):
    """A changed file without a checksum would not be noticed. The card and notes are for people, and are not read."""
    folder = tmp_path / "export"
    export(saved(tmp_path / "a.pt"), folder, data, prepared)
    lines = (folder / "checksums.sha256").read_text().splitlines(keepends=True)
    assert len(lines) >= 8
    for name in ("note.txt", "my plan.txt", "dict.backup.txt"):
        (folder / name).write_text("mine\n")
    for line in lines:
        (folder / "checksums.sha256").write_text("".join(other for other in lines if other != line))
        name = line.split()[1]
        if name == "README.md":
            read_export(folder)
            continue
        with pytest.raises(
            Damaged, match=rf"/{re.escape(name)} is not in .*/checksums\.sha256: move it elsewhere, or export"
        ):
            read_export(folder)
        if name in ("text.json", "bpe.codes"):
            with pytest.raises(
                Damaged, match=rf"^{folder}/{re.escape(name)} is not in .*/checksums\.sha256: restore it"
            ):
                Text(read_text_settings(folder), folder).prepare("x")
    (folder / "checksums.sha256").write_text("".join(lines))
    read_export(folder)


def test_an_export_that_lost_its_checksums_and_steps_is_named(tmp_path, data, prepared, caplog):
    """Test an export without its text steps, with which the model would produce different output.

    Only the checksums show that the text steps are missing.
    """
    folder = tmp_path / "export"
    export(saved(tmp_path / "a.pt"), folder, data, prepared)
    read_export(folder)
    assert not caplog.messages
    (folder / "checksums.sha256").write_bytes(b"")
    with pytest.raises(UserError, match=rf"^{folder}/checksums\.sha256 is empty: restore it, or delete it"):
        read_export(folder)
    (folder / "checksums.sha256").unlink()
    (folder / "text.json").unlink()
    read_export(folder)
    (message,) = caplog.messages
    assert f"{folder} has no checksums in checksums.sha256" in message
    assert "Without text.json its input must be tokens between spaces." in message
    assert read_exported_text(folder) is None
    (folder / "text.json").symlink_to("nothing")
    with pytest.raises(Damaged, match=r"text\.json is damaged, or was not written by wean-export"):
        read_exported_text(folder)


@pytest.mark.parametrize("change", [{"truecase": None}, {"bpe": 8}, {"bpe": ""}, {"later": 1}, {"unit": GONE}])
def test_the_steps_of_an_export_are_complete_and_known(tmp_path, data, prepared, change):
    """A missing or unknown step must be an error. Earlier versions skipped it silently, which changed the output."""
    export(saved(tmp_path / "a.pt"), tmp_path / "export", data, prepared)
    (tmp_path / "export" / "checksums.sha256").unlink()
    path = tmp_path / "export" / "text.json"
    steps = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps({name: value for name, value in steps.items() if value is not GONE}), encoding="utf-8")
    with pytest.raises(UserError, match=f"text.json has a value that .* does not know .*{next(iter(change))}"):
        read_exported_text(path.parent)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_the_format_of_an_export_is_a_whole_number(exported, value):
    (exported / "checksums.sha256").unlink()
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    (exported / "config.json").write_text(json.dumps({**config, "format": value}), encoding="utf-8")
    with pytest.raises(UserError, match=f"has the format {value!r}, and this version of wean_fairseq reads 1"):
        read_export(exported / "model.safetensors")


@pytest.mark.parametrize("name", ["dict.src.txt", "config.json"])
def test_a_sparse_file_of_an_export_is_not_read(exported, name):
    """The file has 100 GB but uses no disk space. Hashing it alone would take minutes."""
    with (exported / name).open("r+b") as file:
        file.truncate(100 << 30)
    with pytest.raises(UserError, match="cannot be read \\(File too large\\)"):
        read_export(exported / "model.safetensors")


def test_sparse_weights_are_not_read(exported):
    """Test a sparse file whose length differs from the length in the header of safetensors."""
    with (exported / "model.safetensors").open("r+b") as file:
        file.truncate(100 << 30)
    with pytest.raises(Damaged, match="is damaged, or was not written by wean-export"):
        read_export(exported)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_of_an_export_are_finite(exported, number):
    (exported / "checksums.sha256").unlink()
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    config["cfg"]["model"]["dropout"] = "here"
    text = json.dumps(config).replace('"here"', number)
    (exported / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(Damaged, match="is damaged, or was not written by wean-export"):
        read_export(exported / "model.safetensors")


def test_an_export_of_a_later_format_is_named(exported):
    (exported / "checksums.sha256").unlink()
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    (exported / "config.json").write_text(json.dumps(config | {"format": 2}), encoding="utf-8")
    with pytest.raises(UserError, match="has the format 2, and this version of wean_fairseq reads 1"):
        read_export(exported / "model.safetensors")


def test_members_of_an_export_of_other_types_are_one_sentence(exported):
    (exported / "checksums.sha256").unlink()
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    refused = []
    for place in places_of(config):
        for value in (None, 7, "text", [1], {"a": 1}, GONE):
            (exported / "config.json").write_text(json.dumps(spoil(config, place, value)), encoding="utf-8")
            try:
                read_export(exported / "model.safetensors")
            except UserError as error:
                refused.append((place[0], str(error)))
    assert {name for name, _ in refused} == {"cfg", "format", "same_as", "optimizer_history", "task_state"}
    assert not any("\n" in sentence for _, sentence in refused)


def test_code_in_the_configuration_of_an_export_is_refused(exported):
    (exported / "checksums.sha256").unlink()
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    config["cfg"]["model"]["decoder_attention"] = "exit(3)"
    (exported / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(Hostile, match=r"exit\(3\)"):
        read_export(exported / "model.safetensors")


def test_what_cannot_be_exported(tmp_path, data, exported):
    with pytest.raises(UserError, match="has files already"):
        export(tmp_path / "a.pt", exported, data)
    with pytest.raises(UserError, match=r"a\.pt is a file"):
        export(tmp_path / "a.pt", tmp_path / "a.pt", data)
    (tmp_path / "mine.tmp").mkdir()
    (tmp_path / "mine.tmp" / "file").touch()
    export(tmp_path / "a.pt", tmp_path / "mine", data)
    assert (tmp_path / "mine.tmp" / "file").exists()
    with pytest.raises(UserError, match=r"there is no directory .*nowhere, the data of .*: give the directory of"):
        export(tmp_path / "a.pt", tmp_path / "second")
    lines = (data / "dict.tgt.txt").read_text().splitlines(keepends=True)
    (data / "dict.tgt.txt").write_text("".join(reversed(lines)))
    with pytest.raises(UserError, match=r"dict\.tgt\.txt in .* has its words in another order"):
        export(tmp_path / "a.pt", tmp_path / "second", data)
    (data / "dict.tgt.txt").write_text("a word without its number\n")
    with pytest.raises(UserError, match=r"dict\.tgt\.txt is not a dictionary"):
        export(tmp_path / "a.pt", tmp_path / "second", data)
    assert not (tmp_path / "second").exists() and not (tmp_path / "second.tmp").exists()
    with pytest.raises(UserError, match=r"there is no .*model\.safetensors"):
        read_export(tmp_path / "model.safetensors")


def doubled(times):
    """Return a list that is small in memory, but has 2**times values as JSON."""
    values = [1]
    for _ in range(times):
        values = [values, values]
    return values


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task_state": {"odd": doubled(15)}}, "more than 10000 values"),
        ({"task_state": {"odd": {1, 2}}}, "of a type that fairseq does not write"),
        ({"task_state": {"odd": b"1"}}, "of a type that fairseq does not write"),
        ({"task_state": {"odd": float("nan")}}, "is not a finite number"),
        ({"optimizer_history": [{"num_updates": 7, "odd": torch.ones(2)}]}, "of a type that fairseq does not write"),
        ({"model": {"weight": torch.tensor([1.0, float("nan")])}}, "weight is not finite"),
    ],
)
def test_members_that_an_export_cannot_hold_are_refused(tmp_path, data, changes, said):
    """Test members that would take hours to write, cause a traceback, or create a folder that cannot be read."""
    torch.save(state() | changes, tmp_path / "odd.pt")
    with pytest.raises(UserError, match=said):
        export(tmp_path / "odd.pt", tmp_path / "model", data)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("source_lang", [None, "src"])
def test_dictionaries_are_always_there(tmp_path, data, source_lang):
    """The checkpoint is from a training whose languages fairseq inferred from the names of its data."""
    (data / "train.src-tgt.src.bin").touch()
    content = state()
    content["cfg"]["task"] |= {"source_lang": source_lang, "target_lang": None}
    torch.save(content, tmp_path / "a.pt")
    export(tmp_path / "a.pt", tmp_path / "export", data)
    assert {path.name for path in (tmp_path / "export").glob("dict.*")} == {"dict.src.txt", "dict.tgt.txt"}
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "export"))  # the path is a folder instead of a file
    assert (loaded["cfg"].task.source_lang, loaded["cfg"].task.target_lang) == ("src", "tgt")
    (data / "train.src-tgt.src.bin").unlink()
    with pytest.raises(UserError, match=r"neither the checkpoint nor the files in .* tell the two sides"):
        export(tmp_path / "a.pt", tmp_path / "other", data)


@pytest.fixture
def prepared(tmp_path, data):
    """Return the source text of the data, which fairseq-preprocess has recorded."""
    text = tmp_path / "text"
    text.mkdir()
    options = {"unit": "moses", "lowercase": True, "bpe": 5, "limit": 0}
    (text / "manifest.json").write_text(json.dumps({"script": "x", "options": options, "files": {}}))
    (text / "bpe.codes").write_text("#version: 0.2\nl o\nlo w</w>\n", encoding="utf-8")
    lines = ["low", "", "lo@@ t , low &quot; " * 40, "how lo@@ t is low , lo@@ t or l@@ ow ?", "low low"]
    (text / "valid.src").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    log = f"Namespace(trainpref={str(text / 'train')!r}, destdir={str(data)!r})\n"
    (data / "preprocess.log").write_text(log, encoding="utf-8")
    return text


@pytest.mark.parametrize("way", ["found", "moved", "given", "unknown"])
def test_an_export_knows_its_text(tmp_path, data, prepared, way):
    """Moses separates the comma, and the two merges make one word of "low" and two of "lot"."""
    saved(tmp_path / "a.pt")
    given = None
    if way == "moved":
        (tmp_path / "elsewhere").mkdir()
        data = data.rename(tmp_path / "elsewhere" / "data")
        prepared.rename(tmp_path / "elsewhere" / "text")
    elif way != "found":
        (data / "preprocess.log").unlink()
        given = prepared if way == "given" else None
    knows = export(tmp_path / "a.pt", tmp_path / "export", data, given)
    assert knows == (way != "unknown") == (tmp_path / "export" / "text.json").exists()
    text = read_exported_text(tmp_path / "export")
    example = tmp_path / "export" / "example.txt"
    assert example.exists() == knows
    if text is None:
        assert way == "unknown"
        return
    assert text.prepare("Low, LOT") == "low , lo@@ t"
    assert text.restore("low , lo@@ t") == "low, lot"
    assert text.example == "how lot is low, lot or low?"  # the line whose length is nearest to ten words
    example.write_text("lower\n")
    with pytest.raises(Damaged, match=r"example\.txt"):
        read_exported_text(tmp_path / "export")


def test_a_text_of_another_size_than_the_data_is_reported(data, prepared, caplog):
    """The settings of another text turn the input of a model into other tokens."""
    manifest = prepared / "manifest.json"
    with (data / "preprocess.log").open("a", encoding="utf-8") as log:
        log.write("[src] /old/place/train.src: 60 sents, 100 tokens, 0.0% replaced (by <unk>)\n")
    content = json.loads(manifest.read_text(encoding="utf-8"))
    for pairs, warned in ((60, False), (54, True)):
        manifest.write_text(json.dumps({**content, "splits": {"train": {"kept": pairs}}}), encoding="utf-8")
        compare_text(data, prepared)
        assert (f"has 54 training pairs, but {data} was made from 60" in caplog.text) == warned


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"unit": "nope"}, "unit is 'nope': choose from words, joiner"),
        ({"unicode": "NFX"}, "unicode is 'NFX': choose from NFC, NFKC, none"),
        ({"specials": "x"}, "specials is 'x': choose from escape, refuse, keep"),
        ({"lowercase": "no"}, "lowercase is 'no': expected `bool`, got `str`"),
        ({"language": 3}, "language is 3: expected `str`, got `int`"),
    ],
)
def test_settings_that_no_step_knows_are_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        TextSettings(**wrong)


@pytest.fixture
def unloaded(monkeypatch):
    """Do not load the exported model: the models of this file have a few parameters with arbitrary names."""
    monkeypatch.setattr("wean_fairseq.checkpoints.export._verify", lambda *_: None)


@pytest.mark.parametrize("name", ["valid.src", "manifest.json", "bpe.codes"])
def test_a_foreign_text_cannot_lead_to_a_file_elsewhere(tmp_path, data, prepared, name):
    """Test links in the text folder, through which a line of a private file, or all of it, would be exported."""
    foreign = tmp_path / "downloads"
    foreign.mkdir()
    data, prepared = data.rename(foreign / "data"), prepared.rename(foreign / "text")
    private = (prepared / name).rename(tmp_path / "private")
    (prepared / name).symlink_to(private)
    saved(tmp_path / "a.pt")
    with pytest.raises(UserError, match=f"{name} leads out of the folder that .*data is in: name the text with --text"):
        export(tmp_path / "a.pt", tmp_path / "export", data)
    assert not (tmp_path / "export").exists()
    assert export(tmp_path / "a.pt", tmp_path / "named", data, prepared)


def with_other_shape(state):
    state["model"]["encoder.embed_tokens.weight"] = torch.zeros(3, 3)


def without_a_parameter(state):
    del state["model"]["encoder.embed_tokens.weight"]


def with_a_parameter_more(state):
    state["model"]["\x1b[31mmore"] = torch.zeros(2)


def of_no_arch(state):
    state["cfg"]["model"]["_name"] = "../../x"


def with_a_search_out_of_range(state):
    state["cfg"]["generation"]["beam"] = -1


UNUSABLE = [with_other_shape, without_a_parameter, with_a_parameter_more, of_no_arch, with_a_search_out_of_range]


@pytest.mark.parametrize("spoil", [None, *UNUSABLE], ids=lambda spoil: spoil and spoil.__name__)
def test_the_command_writes_only_models_that_can_be_loaded(tmp_path, capsys, spoil):
    """Earlier versions exported each of these models with exit status 0, but no command could load it."""
    folder = data_folder(tmp_path)
    path = save_random_model(folder, "copynet", ["--task", "paraphrase", "--arch", "copynet", "--hidden-size", "4"])
    if spoil is not None:
        content = torch.load(path, weights_only=True)
        spoil(content)
        torch.save(content, path)
    status = cli.main_export([str(path), "--output", str(tmp_path / "e"), "--data", str(folder)])
    assert (status, (tmp_path / "e").exists()) == ((0, True) if spoil is None else (2, False))
    if spoil is not None:
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "cannot be exported" in said and ".partial" not in said


@pytest.mark.parametrize("name", ["example.txt", "valid.src"])
def test_a_link_out_of_a_folder_is_no_example(tmp_path, name):
    """Test a link out of a folder, through which another person's model or text could show and export any file."""
    folder, other = tmp_path / "model", tmp_path / "secret"
    folder.mkdir()
    other.write_text("a b\n", encoding="utf-8")
    (folder / name).symlink_to(other)
    assert Text(TextSettings(), folder).example == ""
    (folder / name).unlink()
    (folder / name).write_text("a\u2028b\n", encoding="utf-8")  # one line
    assert Text(TextSettings(), folder).example.split() == ["a", "b"]


def test_a_foreign_log_cannot_name_a_text_elsewhere(tmp_path, data, prepared, caplog):
    """Test a log of another person that names a text, a line of which could be exported as an example."""
    foreign = (tmp_path / "downloads" / "data").parent
    foreign.mkdir()
    data = data.rename(foreign / "data")
    saved(tmp_path / "a.pt")
    assert not export(tmp_path / "a.pt", tmp_path / "export", data)
    assert not (tmp_path / "export" / "example.txt").exists()
    assert "is not used because it is outside of the folder that the data is in: name it with --text" in caplog.text
    assert export(tmp_path / "a.pt", tmp_path / "named", data, prepared)


@pytest.mark.usefixtures("unloaded")
def test_an_export_may_leave_the_example_out(tmp_path, data, prepared):
    saved(tmp_path / "a.pt")
    given = [str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), "--data", str(data), "--no-example"]
    assert cli.main_export(given) == 0
    assert not (tmp_path / "e" / "example.txt").exists()
    text = read_exported_text(tmp_path / "e")
    assert text is not None
    assert (text.prepare("Low, LOT"), text.example) == ("low , lo@@ t", "")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_search_option_that_is_not_finite_is_named(tmp_path, value, capsys):
    assert cli.main_export([str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), "--lenpen", value]) == 2
    assert f"--lenpen must be a finite number, but is {value}." in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("option", "value", "most"), [("beam", 10**6, 200), ("min-len", 9999, 2000), ("max-len-a", 50.0, 10)]
)
def test_a_search_that_takes_days_is_not_stored(tmp_path, option, value, most, capsys):
    """Test a search with which a model folder of another person could take all memory for one sentence."""
    assert cli.main_export([str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), f"--{option}", str(value)]) == 2
    assert f"a stored --{option} must be at most {most}, but is {value}." in capsys.readouterr().err


def test_a_wide_search_for_long_outputs_is_not_stored(tmp_path, capsys):
    line = [str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), "--beam", "200", "--max-len-b"]
    assert cli.main_export([*line, "2001"]) == 2
    assert "a stored --beam 200 with outputs of 2001 words can take hours" in capsys.readouterr().err
    assert cli.main_export([*line, "2000"]) == 2
    assert "can take hours" not in capsys.readouterr().err  # only the checkpoint is missing


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--sampling --diverse-beam-groups 2 --beam 4", "--sampling and --diverse-beam-groups are different kinds"),
        ("--sampling --temperature 1e-30", "--temperature must be from 0.01 to 1e+30, but is 1e-30"),
        ("--temperature 1e30", "a stored --temperature must be at most 1e+29, but is 1e+30"),
        ("--diverse-beam-groups 0", "--diverse-beam-groups must be 1 or more, but is 0"),
        ("--search-preset wean --lenpen 2", "--search-preset wean sums log-probabilities"),
        ("--search-preset cdnpg-sampling --beam 60", "--beam must be less than 50, but is 60"),
        ("--search-preset wean --sampling --temperature 0.5", None),  # sampling replaces the preset
    ],
)
def test_a_search_with_which_a_model_cannot_be_used_is_not_exported(tmp_path, capsys, words, said):
    """Each of these models was exported, and ``load`` or its first search refused it."""
    folder = data_folder(tmp_path)
    path = save_random_model(folder, "copynet", ["--task", "paraphrase", "--arch", "copynet", "--hidden-size", "4"])
    arguments = [str(path), "--output", str(tmp_path / "e"), "--data", str(folder), *words.split()]
    assert (cli.main_export(arguments), (tmp_path / "e").exists()) == ((0, True) if said is None else (2, False))
    assert (said or "") in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_stored_search_option_that_is_not_finite_is_named_with_its_file(tmp_path, data, value):
    saved(tmp_path / "a.pt")
    (tmp_path / SEARCH_FILE).write_text(f"--unkpen {value}\n")
    message = f"--unkpen must be a finite number, but is {value}: fix {tmp_path / SEARCH_FILE}"
    with pytest.raises(UserError, match=re.escape(message)):
        export(tmp_path / "a.pt", tmp_path / "e", data)
    assert not (tmp_path / "e").exists()
    export(tmp_path / "a.pt", tmp_path / "e", data, search={"unkpen": 0.0})


@pytest.mark.usefixtures("unloaded")
def test_an_export_knows_its_search(tmp_path, data):
    content = state()
    content["cfg"]["generation"] = {"beam": 5, "lenpen": 1.0}
    torch.save(content, tmp_path / "a.pt")
    arguments = ["--data", str(data), "--beam", "3", "--max-len-a", "2", "--search-preset", "wean", "--no-replace-unk"]
    assert cli.main_export([str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), *arguments]) == 0
    cfg = read_export(tmp_path / "e")["cfg"]
    assert cfg["generation"] == {"beam": 3, "lenpen": 1.0, "max_len_a": 2.0, "replace_unk": False}
    assert cfg["task"]["search_preset"] == "wean"


@pytest.mark.usefixtures("unloaded")
def test_an_export_takes_over_the_search_that_was_kept_beside_its_checkpoint(tmp_path, data):
    """Test with the file that recipes store, which also has unrelated options.

    Options on the command line have precedence.
    """
    saved(tmp_path / "a.pt")
    kept = "--search-preset\nwean\n--replace-unk\n--beam 5\n--copy-provenance\n'a file'\n--max-len-b\n10\n"
    (tmp_path / SEARCH_FILE).write_text(kept)
    given = [str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), "--data", str(data), "--beam", "3"]
    assert cli.main_export(given) == 0
    cfg = read_export(tmp_path / "e")["cfg"]
    found = {name: cfg["generation"][name] for name in ("beam", "max_len_b", "replace_unk", "min_len")}
    assert found == {"beam": 3, "max_len_b": 10, "replace_unk": True, "min_len": 1}
    assert cfg["task"]["search_preset"] == "wean"


@pytest.mark.usefixtures("unloaded")
def test_an_export_keeps_the_length_of_essays(tmp_path, data):
    """Test the length that a recipe stores next to the checkpoint of an arch that plans by length."""
    content = state()
    content["cfg"]["task"]["_name"] = "topic_essay"
    torch.save(content, tmp_path / "a.pt")
    (tmp_path / SEARCH_FILE).write_text("--essay-length 80\n--beam 2\n")
    assert cli.main_export([str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), "--data", str(data)]) == 0
    assert read_export(tmp_path / "e")["cfg"]["task"]["essay_length"] == 80


def test_a_length_of_essays_is_refused_for_sentences(tmp_path, data, capsys):
    saved(tmp_path / "a.pt")
    options = ["--output", str(tmp_path / "e"), "--data", str(data), "--essay-length", "80"]
    assert cli.main_export([str(tmp_path / "a.pt"), *options]) == 2
    assert "--essay-length is for models of the task topic_essay" in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--beem 9", r"'--beem' is not an option \(did you mean --beam\?\)"),
        ("\u2013lenpen 3", "'\u2013lenpen' is not an option"),
        ("--beam 5 max-len-b 7", "'max-len-b' is not an option"),
    ],
)
def test_a_kept_search_with_a_mistake_is_refused(tmp_path, words, said):
    """Such words were ignored, and the model was exported with another search."""
    (tmp_path / SEARCH_FILE).write_text(words, encoding="utf-8")
    with pytest.raises(UserError, match=f"{SEARCH_FILE} does not hold options of fairseq-generate .{said}"):
        kept_search(tmp_path / "checkpoint_best.pt")


def test_other_options_of_fairseq_generate_beside_a_search_are_left_out(tmp_path):
    """Recipes store all options with which they decode."""
    words = "--beam 5 --replace-unk words.txt --results-path out --nbest=5 --print-alignment soft --quiet"
    (tmp_path / SEARCH_FILE).write_text(words, encoding="utf-8")
    assert kept_search(tmp_path / "checkpoint_best.pt") == {"beam": 5, "replace_unk": True}


@pytest.mark.parametrize("content", ["--beam many", "--search-preset best", "--beam '3", "\udc80", "x" * 1_000_000])
def test_a_kept_search_that_is_none_is_one_sentence(tmp_path, content):
    (tmp_path / SEARCH_FILE).write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(
        UserError, match=f"{SEARCH_FILE} does not hold options of fairseq-generate .*: fix or delete it"
    ):
        kept_search(tmp_path / "checkpoint_best.pt")
    assert kept_search(tmp_path / "elsewhere" / "checkpoint_best.pt") == {}


def test_a_search_is_valid_whenever_its_writer_is_killed(tmp_path, monkeypatch):
    write_search(tmp_path, ["--beam", "3"])

    def killed(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Manifest, "confirm", killed)
    with pytest.raises(KeyboardInterrupt):
        write_search(tmp_path, ["--beam", "4"])
    assert kept_search(tmp_path / "checkpoint_best.pt") == {"beam": 4}


def test_a_changed_search_is_refused_and_a_lost_one_is_named(tmp_path, caplog):
    """An empty or shortened file selected another search without a message."""
    checkpoint = tmp_path / "checkpoint_best.pt"
    write_search(tmp_path, ["--beam", "3", "--lenpen", "0.5"])
    assert kept_search(checkpoint) == {"beam": 3, "lenpen": 0.5}
    (tmp_path / SEARCH_FILE).write_text("--beam\n3\n")
    with pytest.raises(UserError, match=rf"{SEARCH_FILE} has changed since .*: restore it, or, if the change is"):
        kept_search(checkpoint)
    (tmp_path / SEARCH_FILE).unlink()
    assert kept_search(checkpoint) == {}
    assert f"{SEARCH_FILE} is missing, so the search is fairseq's" in caplog.text


def test_text_steps_that_are_missing_or_changed_are_said(tmp_path, data, prepared):
    saved(tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"data has no manifest\.json of a script of preprocess/"):
        export(tmp_path / "a.pt", tmp_path / "export", data, data)
    export(tmp_path / "a.pt", tmp_path / "export", data)
    codes = tmp_path / "export" / "bpe.codes"
    codes.write_text("#version: 0.2\n", encoding="utf-8")
    with pytest.raises(Damaged, match=r"bpe\.codes has changed since"):
        read_exported_text(tmp_path / "export")
    codes.unlink()
    with pytest.raises(UserError, match=r"has no bpe\.codes, which its text steps need"):
        read_exported_text(tmp_path / "export")
    (tmp_path / "export" / "checksums.sha256").unlink()
    steps = json.loads((tmp_path / "export" / "text.json").read_text(encoding="utf-8"))
    unknown = [json.dumps(steps | values) for values in ({"unit": "sentences"}, {"lowercase": "yes"})]
    for content in ("{", "[]", *unknown):
        (tmp_path / "export" / "text.json").write_text(content)
        with pytest.raises(
            UserError, match=r"text\.json (is damaged|has a value .* (got `array`|at `\$\.(unit|lowercase)`))"
        ):
            read_exported_text(tmp_path / "export")
    (prepared / "bpe.codes").unlink()
    with pytest.raises(UserError, match=r"text has no bpe\.codes"):
        export(tmp_path / "a.pt", tmp_path / "second", data)
    assert not (tmp_path / "second").exists()


# --- dictionaries ---------------------------------------------------------------------------------------------------


def words(*names, count=1):
    dictionary = Dictionary()
    for name in names:
        dictionary.add_symbol(name, n=count)
    return dictionary


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (words("a", "c", "b"), "has its words in another order"),
        (words("a", "b"), "has 6 words, and it had 7"),
        (words("a", "b", "d"), "has other words"),
    ],
)
def test_another_dictionary_is_refused_by_name(now, message):
    trained = {"tgt": dictionaries.fingerprint(words("a", "b", "c"))}
    with pytest.raises(UserError, match=rf"^m\.pt was trained with .*: dict\.tgt\.txt in bin {message}"):
        dictionaries.check(trained, {"src": now, "tgt": now}, "m.pt", "bin")


def test_exchanged_sides_are_reported(caplog):
    """With a joined dictionary, only the order of the sides shows that a model is used in the other direction."""
    joined = words("a", "b")
    trained = {side: dictionaries.fingerprint(joined) for side in ("src", "tgt")}
    dictionaries.check(trained, {"src": joined, "tgt": joined}, "m.pt", "bin")
    assert not caplog.records
    dictionaries.check(trained, {"tgt": joined, "src": joined}, "m.pt", "bin")
    assert "EXCHANGED SIDES: m.pt was trained from src to tgt, and is used from tgt to src" in caplog.text


def test_counts_and_slots_make_no_other_dictionary():
    from wean_fairseq.data.extended_vocabulary import ExtendedDictionary

    trained = {"tgt": dictionaries.fingerprint(words("a", "b", "c"))}
    now = ExtendedDictionary(words("a", "b", "c", count=5))
    now.reserve_slots(4)
    dictionaries.check(trained, {"tgt": now}, "m.pt", "bin")
    dictionaries.check({}, {"tgt": words("x")}, "an old checkpoint, which does not tell", "bin")


# --- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unloaded")
def test_the_commands_do_it(tmp_path, data, capsys):
    for number in (1, 2):
        saved(tmp_path / f"checkpoint{number}.pt", value=float(number), updates=number)
    out = tmp_path / "mean.pt"
    assert cli.main_average([str(tmp_path), "--last", "2", "--output", str(out)]) == 0
    capsys.readouterr()
    assert cli.main_average([str(tmp_path), "--last", "2", "--output", str(out)]) == 2
    assert f"{out} exists already: choose another --output, or pass --overwrite" in capsys.readouterr().err
    assert cli.main_average([str(tmp_path), "--last", "2", "--output", str(out), "--overwrite"]) == 0
    assert cli.main_export([str(out), "--output", str(tmp_path / "e"), "--data", str(data)]) == 0
    found = read_export(tmp_path / "e" / "model.safetensors")["model"]["encoder.embed"]
    assert torch.equal(found, torch.full((4, 3), 1.5))
    assert "checkpoint2.pt" in capsys.readouterr().out


@pytest.mark.usefixtures("unloaded")
def test_a_line_feed_in_a_name_is_printed_as_an_escape(tmp_path, data, capsys):
    first, second = saved(tmp_path / "a\n.pt"), saved(tmp_path / "b.pt", updates=2)
    assert cli.main_average([str(first), str(second), "--output", str(tmp_path / "c\n.pt")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/c\\n.pt is the average of {tmp_path}/a\\n.pt, {second}\n"
    assert cli.main_export([str(first), "--output", str(tmp_path / "e\n"), "--data", str(data)]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/e\\n holds the model of {tmp_path}/a\\n.pt: ")
    assert main_checksum([str(first)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/a\\n.pt: checksum written\n"


def test_the_commands_refuse_in_one_sentence(tmp_path, capsys):
    assert cli.main_average([str(tmp_path / "a.pt"), "--last", "2", "--output", "x"]) == 2
    assert cli.main_export([str(tmp_path / "a.pt"), "--output", str(tmp_path / "e")]) == 2
    assert main_checksum([str(tmp_path / "a.pt")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["wean-average", "wean-export", "wean-checksum"]


def test_the_checksums_of_a_whole_model_leave_out_their_own_file(exported, capsys):
    before = (exported / "checksums.sha256").read_bytes()
    (exported / "link").symlink_to("checksums.sha256")
    assert main_checksum([str(path) for path in sorted(exported.iterdir())]) == 0
    assert capsys.readouterr().out.count("skipped, because it is the list of checksums") == 2
    assert (exported / "checksums.sha256").read_bytes() == before
    with (exported / "checksums.sha256").open("a") as file:  # add a line in the form of an earlier wean-checksum
        file.write(f"{'0' * 64}  checksums.sha256\n")
    assert read_export(exported)["model"]


def test_the_checksums_of_a_folder_are_read_once_and_written_once(exported, monkeypatch):
    """An earlier version took 110 s for a folder with 4,000 files, as it read the whole list for each file."""
    for number in range(9):
        (exported / f"file{number}").touch()
    read, calls = Manifest._read, []
    monkeypatch.setattr(Manifest, "_read", lambda self: calls.append(self.path) or read(self))
    assert main_checksum([str(path) for path in exported.iterdir()]) == 0
    assert len(calls) == 2  # once before the lock is taken and once while it is held
    calls.clear()
    read_export(exported)
    assert len(calls) == 1


def test_a_checkpoint_put_in_the_place_of_another_is_accepted_once_it_is_said_so(tmp_path):
    from wean_fairseq.checkpoints import writing

    path = tmp_path / "checkpoint_last.pt"
    writing.save(state(1.0), path)
    saved(path, value=2.0)
    with pytest.raises(Damaged, match="run wean-checksum on it"):
        read_checkpoint(path)
    assert main_checksum([str(path)]) == 0
    assert torch.equal(read_checkpoint(path)["model"]["encoder.embed"], torch.full((4, 3), 2.0))


def test_a_folder_whose_name_is_not_utf8_is_read(tmp_path, data):
    folder = tmp_path / "model\udcff"
    export(saved(tmp_path / "a.pt", value=0.3), folder, data)
    tensors = read_export(folder)["model"]
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in state(value=0.3)["model"].items())
