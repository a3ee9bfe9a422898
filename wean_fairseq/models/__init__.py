"""Model families; importing one registers its archs."""

from . import (
    copy_transformer,
    copynet,
    dnpg,
    granularity_transformer,
    mta_lstm,
    nts,
    pc_san,
    pointer_generator,
    ppg,
    residual_lstm,
    sc_lstm,
    wean_lstm,
)

__all__ = [
    "copy_transformer",
    "copynet",
    "dnpg",
    "granularity_transformer",
    "mta_lstm",
    "nts",
    "pc_san",
    "pointer_generator",
    "ppg",
    "residual_lstm",
    "sc_lstm",
    "wean_lstm",
]
