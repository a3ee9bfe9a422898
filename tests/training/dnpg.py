"""Settings of DNPG. The paper states no dropout and no initialisation, so we use the Transformers' settings.

The labels have Gumbel noise.
"""

from tests.unit.models.test_dnpg import labels_of

from . import CROSS_ATTENTION, DECODER, ENCODER, SELF_ATTENTION, Case, Dropped, constant, normal, pytorch

# The sizes come from the table of the two levels in section 4 of Li et al., ACL 2019.
LEVELS = {"phrase_dim": 300, "phrase_heads": 6, "sentence_dim": 150, "sentence_heads": 3, "encoder_layers": 3}
LEVELS |= {"decoder_layers": 3, "ffn_factor": 4, "window": 3, "separator_dim": 300, "aggregator_dim": 300}
# The temperature and the weight of the label loss, before and after three epochs, come from section 3.2.
LABELS = {"label_weight": 1.0, "final_label_weight": 0.01, "temperature": 1.0, "final_temperature": 0.9}
SETTINGS = {"dnpg": {**LEVELS, **LABELS, "anneal_after": 3, "dropout": 0.1, "attention_dropout": 0.1}}
SLOTS = 64
SIZES = {
    "phrase_dim": 8,
    "phrase_heads": 2,
    "sentence_dim": 18,
    "sentence_heads": 3,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "separator_dim": 4,
    "aggregator_dim": 7,
}
LEVELS = ((8, 2), (18, 3))
PARTS = [
    part
    for width, heads in LEVELS
    for part in (
        Dropped(ENCODER, "add", width),  # the sum of word and position
        Dropped(ENCODER, SELF_ATTENTION, heads, 1, "attention_dropout"),
        Dropped(ENCODER, "linear", width, 2),
        Dropped(DECODER, "add", width),
        Dropped(DECODER, SELF_ATTENTION, heads, 2, "attention_dropout"),
        Dropped(DECODER, CROSS_ATTENTION, heads, 2, "attention_dropout"),
        Dropped(DECODER, "linear", width, 6),
    )
]
STARTS = {
    r".*phrase_embedding\.words\.weight": normal(8**-0.5),
    r".*sentence_embedding\.words\.weight": normal(18**-0.5),
    r".*norm.*": pytorch,
    r".*separator\..*|.*_output\..*|.*aggregator\..*": pytorch,
    r".*bias": constant(0.0),
    r".*": normal(0.02),
}
CASES = [
    Case(
        "dnpg",
        SIZES | {"decoder_labels": labels},
        PARTS,
        STARTS,
        noise=frozenset({"exponential_"}),
        inputs=lambda model, batch: labels_of(batch),
    )
    for labels in ("aggregator", "weak")
]
