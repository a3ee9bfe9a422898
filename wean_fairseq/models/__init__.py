"""Model families; importing one registers its archs."""

from . import (
    copy_transformer,
    copynet,
    dnpg,
    drgd,
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
