"""The same weights give the same states as Hugging Face's BERT."""

import torch
from torch.testing import assert_close
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertModel

from model.config import preset
from model.network.transformer import Transformer
from tests.model.reference_networks import copy_bert
from tests.model.tiny_networks import ids, randomised

VOCAB, PAD = 31, 0


def bert() -> BertModel:
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=12,
        pad_token_id=PAD,
    )
    return randomised(BertModel(config, add_pooling_layer=False))


def shrunk_preset() -> Transformer:
    sizes = {"model_dim": 16, "num_heads": 2, "num_encoder_layers": 2, "ffn_dim": 24, "max_positions": 12}
    config = preset(
        "bert",
        source_vocab_size=VOCAB,
        target_vocab_size=VOCAB,
        pad_id=PAD,
        norm_position="post",
        norm_epsilon=1e-12,
        **sizes,
    )
    return Transformer(config).eval()


@torch.inference_mode()
def test_states_are_berts() -> None:
    theirs, ours = bert(), shrunk_preset()
    copy_bert(ours, theirs)
    source_NS = ids(3, 12)
    source_NS[1, 8:] = PAD
    mask_NS = source_NS != PAD
    expected = theirs(input_ids=source_NS, attention_mask=mask_NS.long()).last_hidden_state
    encoder_output = ours.encode(source_NS)
    assert torch.equal(encoder_output.mask_NS, mask_NS)
    assert_close(encoder_output.states_NSM[mask_NS], expected[mask_NS], atol=1e-5, rtol=1e-5)
