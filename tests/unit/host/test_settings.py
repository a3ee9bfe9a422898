"""Test settings of libraries and of Python."""

import warnings

import numpy as np
import pytest

from wean_fairseq.host import settings


@pytest.mark.parametrize(
    "message",
    [
        "\n'config' is validated against ConfigStore schema with the same name.",
        "\nThe strict flag in the compose API is deprecated.",
        "'pin_memory' argument is set as true but no accelerator is found",
        "`torch.cuda.amp.autocast(args...)` is deprecated.",
    ],
)
def test_noise_of_the_host_is_not_shown_but_other_warnings_are(message):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings.hide_noise()
        warnings.warn(message, UserWarning, stacklevel=1)
        warnings.warn("something of the user's", UserWarning, stacklevel=1)
    assert [str(entry.message) for entry in caught] == ["something of the user's"]


def test_numpy_has_the_integer_that_fairseq_uses(monkeypatch):
    """language_pair_dataset and token_block_dataset of fairseq use ``np.compat.long``, which was Python's int."""
    monkeypatch.delattr(np, "compat")
    settings.provide_numpy_compat()
    assert vars(np)["compat"].long is int
