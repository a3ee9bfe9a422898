"""The model that a lexical model is mixed into (DRESS-LS), from the checkpoint of its own training."""

from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from torch import nn

from ...errors import UserError
from .config import NtsConfig

_SHAPING = ("embed_dim", "hidden_size", "num_layers", "attention_score", "reverse_source", "freeze_vectors")


def is_lexical(name: str) -> bool:
    """Whether a parameter is one of the lexical model."""
    return "lexical" in name.split(".")


def load_base(model: nn.Module, cfg: NtsConfig, task: FairseqTask) -> None:
    """Give ``model`` the parameters of ``cfg.base_checkpoint``, all but those of the lexical model.

    Raises:
        UserError: if the checkpoint cannot be read, knows other words, or is of other options or another family.
    """
    path = str(cfg.base_checkpoint)
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    if hasattr(task, "check_dictionaries"):
        task.check_dictionaries(state["task_state"], path)
    trained = (state["cfg"] or {}).get("model")  # of some archs of fairseq a namespace
    for name in _SHAPING:
        found, wanted = getattr(trained, name, None), getattr(cfg, name)
        if str(found) != str(wanted):
            raise UserError(
                f"--base-checkpoint {path} must be of the nts family with the options of this model, but its "
                f"{name} is {found} and not {wanted}."
            )
    shapes = {name: value.shape for name, value in model.state_dict().items() if not is_lexical(name)}
    given = {name: value.shape for name, value in state["model"].items()}
    if shapes != given:
        name = min(name for name in {*shapes, *given} if shapes.get(name) != given.get(name))
        raise UserError(f"--base-checkpoint {path} has other parameters than this model ({name}): give another one.")
    model.load_state_dict(state["model"], strict=False)
