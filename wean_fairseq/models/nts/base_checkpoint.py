"""Load the base model for a lexical model (DRESS-LS) from its checkpoint."""

from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from torch import nn

from ...errors import UserError
from .config import NtsConfig

_SHAPING = ("embed_dim", "hidden_size", "num_layers", "attention_score", "reverse_source", "freeze_vectors")


def is_lexical(name: str) -> bool:
    """Return True for a parameter of the lexical model."""
    return "lexical" in name.split(".")


def load_base(model: nn.Module, cfg: NtsConfig, task: FairseqTask) -> None:
    """Load the parameters of ``cfg.base_checkpoint`` into ``model``, except those of the lexical model.

    Raises:
        UserError: if the checkpoint cannot be read, has another dictionary, or was trained with other options or
            another family.
    """
    path = str(cfg.base_checkpoint)
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    if hasattr(task, "check_dictionaries"):
        task.check_dictionaries(state["task_state"], path)
    trained = (state["cfg"] or {}).get("model")  # a namespace for some fairseq archs
    for name in _SHAPING:
        trained_value, required_value = getattr(trained, name, None), getattr(cfg, name)
        if str(trained_value) != str(required_value):
            raise UserError(
                f"--base-checkpoint {path} must be of the nts family with the options of this model, but its "
                f"{name} is {trained_value} and not {required_value}."
            )
    shapes = {name: value.shape for name, value in model.state_dict().items() if not is_lexical(name)}
    trained_shapes = {name: value.shape for name, value in state["model"].items()}
    if shapes != trained_shapes:
        name = min(name for name in {*shapes, *trained_shapes} if shapes.get(name) != trained_shapes.get(name))
        raise UserError(f"--base-checkpoint {path} has other parameters than this model ({name}): give another one.")
    model.load_state_dict(state["model"], strict=False)
