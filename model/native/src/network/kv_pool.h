// What decoding remembers: a pool of entries, each the keys and values of one position in all decoder layers.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "kernels/buffer.h"

namespace dragoman {

struct StateLayout {
  int layers;
  int width;         // numbers of a key, and of a value: those of all heads, each padded to whole vectors
  int number_bytes;  // 4: float32, 2: bfloat16
};

// One position of a hypothesis, or one source token, occupies one entry. Beams never move entries: a
// hypothesis is a list of entry numbers, and beams that share a past name the same ones.
class State {
 public:
  // All memory is taken here; what was never written to occupies none.
  State(const StateLayout& layout, int32_t entries)
      : entry_bytes_(int64_t{2} * layout.width * layout.number_bytes),
        entries_(entries),
        memory_(layout.layers * int64_t{entries} * entry_bytes_) {
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

  // Keys of all heads; the values follow them.
  void* entry(int layer, int32_t number) {
    return memory_.data() + (int64_t{layer} * entries_ + number) * entry_bytes_;
  }

 private:
  int64_t entry_bytes_;
  int32_t entries_;
  LazyBuffer<uint8_t> memory_;
  std::vector<int32_t> free_;
};

// Entries that one sentence has taken; they go back with it, also if it fails to come into being.
class Lease {
 public:
  Lease(State& state, int64_t most) : state_(state) { entries_.reserve(most); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // The last first, so that neighbours are taken together again.
  ~Lease() {
    for (std::size_t i = entries_.size(); i-- > 0;) state_.give_back(entries_[i]);
  }

  void take() { entries_.push_back(state_.take()); }
  std::size_t size() const { return entries_.size(); }
  int32_t operator[](std::size_t place) const { return entries_[place]; }
  const int32_t* data() const { return entries_.data(); }

 private:
  State& state_;
  std::vector<int32_t> entries_;
};

}  // namespace dragoman
