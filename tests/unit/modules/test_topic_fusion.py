"""Test the combination of topic vectors with BERT's states (PC-SAN, eq. 3).

The expected values are computed by hand.
"""

import pytest
import torch

from wean_fairseq.modules import TopicFusion

WORDS = torch.arange(6.0).view(1, 3, 2)  # (B, S, E)
MIXED = torch.arange(24.0).view(1, 2, 3, 4) + 100  # (B, N, S, H)


def test_side_by_side_for_wider_keys_and_values():
    fusion = TopicFusion("kv1536", 2, 4)
    assert fusion.output_dim == 6
    found = fusion(WORDS, MIXED)
    assert found.shape == (1, 2, 3, 6)
    assert found[0, 1, 2].tolist() == [4.0, 5.0, 120.0, 121.0, 122.0, 123.0]
    assert not list(fusion.parameters())


def test_side_by_side_and_mapped_back_by_one_map_for_all():
    fusion = TopicFusion("feature", 2, 4)
    assert fusion.output_dim == 2
    found = fusion(WORDS, MIXED)
    joined = torch.tensor([4.0, 5.0, 120.0, 121.0, 122.0, 123.0])
    torch.testing.assert_close(found[0, 1, 2], fusion.proj.weight @ joined + fusion.proj.bias)
    assert {name: tuple(p.shape) for name, p in fusion.named_parameters()} == {"proj.weight": (2, 6), "proj.bias": (2,)}


def test_one_after_the_other():
    fusion = TopicFusion("sequence", 2, 2)
    found = fusion(WORDS, MIXED[..., :2])
    assert found.shape == (1, 2, 6, 2)
    assert found[0, 1].tolist() == [[0, 1], [2, 3], [4, 5], [112, 113], [116, 117], [120, 121]]
    no_topic = torch.tensor([[False, False, True]])
    assert fusion.positions(no_topic).tolist() == [[False, False, True, False, False, True]]
    assert torch.equal(TopicFusion("feature", 2, 2).positions(no_topic), no_topic)


def test_one_after_the_other_needs_equal_widths():
    with pytest.raises(ValueError, match="they have 2 and 4 units: use 'feature'"):
        TopicFusion("sequence", 2, 4)
