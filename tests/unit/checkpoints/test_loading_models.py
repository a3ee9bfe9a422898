"""Test that models are rebuilt from their checkpoints, including fairseq's models.

A checkpoint without its parameters is refused.
"""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils, options, tasks
from fairseq.data.fasta_dataset import EncodedFastaDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError

import wean_fairseq
from tests.model_contract import make_dictionary
from wean_fairseq.checkpoints.export import export
from wean_fairseq.checkpoints.loading import StoredModel
from wean_fairseq.errors import UserError
from wean_fairseq.host.checkpoints import load_model_ensemble_and_task

ARCHS = {
    "wean_lstm": ["--embed-dim", "8", "--hidden-size", "8", "--adam-betas", "(0.5, 0.9)"],
    "lstm": ["--encoder-embed-dim", "8", "--decoder-embed-dim", "8", "--decoder-attention", "1"],
    "transformer": ["--encoder-layers", "1", "--decoder-layers", "1", "--adaptive-softmax-cutoff", "5,9"],
    "fconv": ["--encoder-layers", "[(8, 3)] * 2 + [(9, 3)]", "--decoder-layers", "[(8, 3)] * 2"],
}


@pytest.fixture
def data(tmp_path):
    for side in ("src", "tgt"):
        make_dictionary(11).save(str(tmp_path / f"dict.{side}.txt"))
    return tmp_path


def save(data, arch, legacy=False, spoil=lambda model: None, task="translation"):
    """Return a random model and its checkpoint, in the form of fairseq-train or in the old form with ``args`` alone."""
    given = [str(data), "-s", "src", "-t", "tgt", "--cpu", "--optimizer", "adam", "--arch", arch, *ARCHS[arch]]
    given += ["--task", task]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=given)
    cfg = convert_namespace_to_omegaconf(args)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    with torch.no_grad():
        spoil(model)
    kept = {"args": Namespace(**vars(args))} if legacy else {"args": None}
    kept["cfg"] = None if legacy else OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    history = [{"num_updates": 1, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}]
    state = {**kept, "model": model.state_dict(), "extra_state": {"epoch": 1}, "optimizer_history": history}
    torch.save(state, data / "checkpoint.pt")
    return model


@pytest.mark.parametrize("legacy", [False, True], ids=["cfg", "args"])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_model_comes_back_as_it_was(data, arch, legacy):
    model = save(data, arch, legacy)
    [loaded], _ = checkpoint_utils.load_model_ensemble([str(data / "checkpoint.pt")])
    assert type(loaded) is type(model)
    expected = model.state_dict()
    assert loaded.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in loaded.state_dict().items())


def test_a_model_of_fairseqs_own_task_is_not_loaded_to_use_it(data):
    save(data, "lstm")
    with pytest.raises(UserError, match="is a model of TranslationTask, and only those of"):
        wean_fairseq.load(data / "checkpoint.pt", device="cpu")


def test_an_option_of_the_caller_overrides_the_stored_search(data):
    save(data, "wean_lstm", task="paraphrase")
    (data / "search.txt").write_text("--beam 3 --max-len-b 7 --search-preset wean")
    model = wean_fairseq.load(data / "checkpoint.pt", device="cpu", beam=2, search_preset="copynet")
    assert model.describe_search() == "--beam 2 --max-len-b 7 --search-preset copynet"


@pytest.mark.parametrize("search", ["--beam 1000000", "--min-len 9999", "--max-len-a 50"])
def test_a_stored_search_that_takes_days_is_refused(data, search):
    save(data, "wean_lstm", task="paraphrase")
    wean_fairseq.load(data / "checkpoint.pt", device="cpu")
    (data / "search.txt").write_text(search)
    with pytest.raises(
        UserError, match=rf"the search of .*checkpoint\.pt is not valid: a stored {search.split()[0]} must"
    ):
        wean_fairseq.load(data / "checkpoint.pt", device="cpu")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_model_that_diverged_is_refused(data, number):
    """Test a diverged model, which would produce hundreds of meaningless words."""

    def spoil(model):
        model.encoder.embed_tokens.weight[5, 3] = number

    save(data, "lstm", spoil=spoil)
    with pytest.raises(UserError, match=r"checkpoint\.pt has a parameter that is not finite \(encoder\.embed_tok"):
        checkpoint_utils.load_model_ensemble([str(data / "checkpoint.pt")])


def test_a_missing_checkpoint_is_named(data):
    """fairseq loads several models, and names the path of a missing one in its error."""
    save(data, "lstm")
    missing = str(data / "none.pt")
    for paths in ([missing], [str(data / "checkpoint.pt"), missing]):
        with pytest.raises(UserError, match=f"^there is no model {missing}: name a "):
            checkpoint_utils.load_model_ensemble(paths)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("encoder_embed_path", "/no/such/file", "No such file"),  # OSError
        ("encoder_hidden_size", -4, "must be greater than zero"),  # ValueError
        ("encoder_embed_dim", -4, "negative dimension"),  # RuntimeError
    ],
)
def test_a_configuration_that_no_model_can_be_made_of_is_one_sentence(data, option, value, said):
    save(data, "lstm", legacy=True)
    state = torch.load(data / "checkpoint.pt", weights_only=True)
    setattr(state["args"], option, value)
    torch.save(state, data / "checkpoint.pt")
    with pytest.raises(UserError, match=rf"cannot build a model from .*checkpoint\.pt \(.*{said}") as caught:
        checkpoint_utils.load_model_ensemble([str(data / "checkpoint.pt")])
    assert "\n" not in str(caught.value)


def test_wrong_overrides_are_named(data, caplog):
    """fairseq ignores an unknown name, and a wrong value made the file seem damaged."""
    save(data, "wean_lstm", task="paraphrase")
    load = [str(data / "checkpoint.pt")]
    with pytest.raises(UserError, match=r"cannot build a model from .*: correct --model-overrides; if it is right"):
        checkpoint_utils.load_model_ensemble_and_task(load, arg_overrides={"num_candidates": "many"})
    checkpoint_utils.load_model_ensemble_and_task(load, {"num_candidates": 5, "beam": 3, "optimizer": "adam"})
    assert "has no option" not in caplog.text
    checkpoint_utils.load_model_ensemble_and_task(load, {"num_candidatez": 5})
    assert "has no option num_candidatez (did you mean num_candidates?), so --model-overrides does not" in caplog.text
    for wrong in ({1: 2}, {None: 1, "beam": 3}, [1], ["path"]):
        with pytest.raises(UserError, match=r"--model-overrides must be a dictionary, such as .*, but is "):
            checkpoint_utils.load_model_ensemble_and_task(load, wrong)
    with pytest.raises(UserError, match=r"has other parameters .*: correct --model-overrides, give the options"):
        checkpoint_utils.load_model_ensemble_and_task(load, {"embed_dim": 16})


def test_only_names_in_the_overrides_are_reported(data, caplog):
    """fairseq-validate passes its whole command line, and a model without a dataclass takes every name."""
    save(data, "wean_lstm", task="paraphrase")
    load, line = [str(data / "checkpoint.pt")], {"path": "checkpoint.pt", "unheard_of": 64}
    checkpoint_utils.load_model_ensemble_and_task(load, dict(line))
    assert "has no option" not in caplog.text
    with pytest.raises(UserError, match=r"--model-overrides must be a dictionary, such as .*, but is \{1: 2\}"):
        checkpoint_utils.load_model_ensemble_and_task(load, {**line, "model_overrides": "{1: 2}"})
    checkpoint_utils.load_model_ensemble_and_task(load, {**line, "model_overrides": "{'more': 1}", "more": 1})
    assert "has no option more, so" in caplog.text and "unheard_of" not in caplog.text
    caplog.clear()
    save(data, "lstm", legacy=True)
    checkpoint_utils.load_model_ensemble_and_task(load, {"brand_new": 3})
    assert "has no option" not in caplog.text


def test_an_error_of_the_configuration_names_the_model():
    def fail(_filenames):
        raise ConfigKeyError("Missing key num_candidates")

    with pytest.raises(UserError, match=r"^cannot build a model from m\.pt \(.*Missing key num_candidates"):
        load_model_ensemble_and_task(fail, ["m.pt"])


@pytest.mark.parametrize(("path", "data"), [("m${a", None), ("m.pt", "${oc.env:HOME}")])
def test_a_name_that_a_configuration_would_replace_is_refused(path, data):
    with pytest.raises(UserError, match=r"has \$\{ in it, which fairseq replaces by another value"):
        StoredModel(path, data)
    with pytest.raises(UserError, match=r"^the folder .*/out\$\{x\} has \$\{ in it"):
        export("m.pt", "out${x}")


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("section", ["model", "task"])
def test_an_unknown_model_or_task_is_named(data, section, legacy):
    """Test unknown names, which fairseq deletes and then does not find, or reports as "could not infer"."""
    save(data, "lstm", legacy=legacy)
    state = torch.load(data / "checkpoint.pt", weights_only=True)
    if legacy:
        setattr(state["args"], {"model": "arch", "task": "task"}[section], "nosuch")
    elif section == "model":  # an arch of fairseq that has no dataclass
        state["cfg"]["model"]._name = "nosuch"
    else:
        state["cfg"]["task"]["_name"] = "nosuch"
    torch.save(state, data / "checkpoint.pt")
    with pytest.raises(UserError, match=f"was trained with the {section} nosuch, which is not registered: give the "):
        checkpoint_utils.load_model_ensemble([str(data / "checkpoint.pt")])


def test_no_name_of_a_fasta_file_gets_to_a_shell(tmp_path):
    name = tmp_path / "$(touch ran)"
    name.with_name(f"{name.name}.fasta").write_text(">a\nACGT\n")
    with pytest.raises(UserError, match="cannot be read: fairseq would run its name in a shell"):
        EncodedFastaDataset(str(name), make_dictionary())
    assert not (tmp_path / "ran").exists()
