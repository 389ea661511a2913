// The layers of encoder and decoder: their weights, and how they come from a checkpoint.
#pragma once

#include <string>

#include "kernels/layer_norm.h"
#include "kernels/matrix.h"
#include "network/loader.h"

namespace dragoman {

struct FeedForward {
  Matrix input, output;
  LayerNorm norm;
};

struct SelfAttention {
  Matrix query_key_value, output;
  LayerNorm norm;
};

struct CrossAttention {
  Matrix query, key_value, output;
  LayerNorm norm;
};

struct EncoderLayer {
  SelfAttention attention;
  FeedForward feed_forward;
};

struct DecoderLayer {
  SelfAttention attention;
  CrossAttention cross;
  FeedForward feed_forward;
};

inline SelfAttention load_self_attention(const Loader& loader, const std::string& layer) {
  return {loader.to_heads({layer + ".attention.query", layer + ".attention.key_value"}),
          loader.from_heads(layer + ".attention.output"), loader.norm(layer + ".attention_residual.norm")};
}

inline FeedForward load_feed_forward(const Loader& loader, const std::string& layer) {
  return {loader.linear(layer + ".feed_forward.input"), loader.linear(layer + ".feed_forward.output"),
          loader.norm(layer + ".feed_forward_residual.norm")};
}

inline CrossAttention load_cross_attention(const Loader& loader, const std::string& layer) {
  return {loader.to_heads({layer + ".cross.query"}), loader.to_heads({layer + ".cross.key_value"}),
          loader.from_heads(layer + ".cross.output"), loader.norm(layer + ".cross_residual.norm")};
}

}  // namespace dragoman
