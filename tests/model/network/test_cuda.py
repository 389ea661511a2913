import logging

import pytest
import torch

from model.network.cuda import choose_attention_kernels


def test_a_gpu_never_uses_the_attention_of_cudnn_and_the_log_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used = {"cudnn": True}
    kernels = torch.backends.cuda
    monkeypatch.setattr(kernels, "enable_cudnn_sdp", lambda enabled: used.update(cudnn=enabled))
    monkeypatch.setattr(kernels, "cudnn_sdp_enabled", lambda: used["cudnn"])
    with caplog.at_level(logging.INFO):
        choose_attention_kernels("cpu")
        assert used["cudnn"]
        choose_attention_kernels("cuda:1")
    assert not used["cudnn"]
    (message,) = caplog.messages
    assert message.startswith("attention on cuda:1 by one of: flash")
    assert "cuDNN" not in message
