"""Model families, one file each. Importing a module registers its archs."""

from .. import register

register()

from . import (
    copy_transformer,
    copynet,
    dnpg,
    drgd,
    essay_transformer,
    fset,
    granularity_transformer,
    mta_lstm,
    nts,
    pc_san,
    pointer_generator,
    ppg,
    residual_lstm,
    rnn_distract,
    sc_lstm,
    srb,
    wean_lstm,
)
