// What decoding remembers: a pool of entries, each the keys and values of one position in all decoder layers.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "memory.h"

namespace dragoman {

// One position of a hypothesis, or one source token, occupies one entry. Beams never move entries: a
// hypothesis is a list of entry numbers, and beams that share a past name the same ones.
class State {
 public:
  // layers × entries × (keys, values) of `width` numbers each; all memory is taken here.
  State(int layers, int width, int32_t entries)
      : width_(width), entries_(entries), values_(int64_t{layers} * entries * 2 * width) {
    free_.reserve(entries);
    for (int32_t entry = entries; entry-- > 0;) free_.push_back(entry);
  }

  int32_t capacity() const { return entries_; }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }

  int32_t take() {
    if (free_.empty()) throw std::length_error("the decoder state is full");
    const int32_t entry = free_.back();
    free_.pop_back();
    return entry;
  }
  void give_back(int32_t entry) { free_.push_back(entry); }

  // Keys of all heads, `width` numbers; the values follow them.
  float* keys(int layer, int32_t entry) {
    return values_.data() + (int64_t{layer} * entries_ + entry) * 2 * width_;
  }
  float* values(int layer, int32_t entry) { return keys(layer, entry) + width_; }
  int width() const { return width_; }

 private:
  int width_;
  int32_t entries_;
  LazyBuffer<float> values_;
  std::vector<int32_t> free_;
};

}  // namespace dragoman
