// The decoder state: a pool of KV slots, each of which holds the keys and values of one position in all decoder layers.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "kernels/buffer.h"

namespace dragoman {

struct KvLayout {
  int layers;
  int64_t bytes;  // of a key and its value in one layer, or of the state of a recurrent cell
};

// One target position of a hypothesis, or one source token, occupies one slot. Slots are never moved or copied: a
// hypothesis is a block table, the list of the slots of its positions, and beams with a common prefix share slots.
class KvPool {
 public:
  // Reserves address space for all slots. The system provides memory when a slot is first written.
  KvPool(const KvLayout& layout, int32_t capacity)
      : bytes_(layout.bytes), capacity_(capacity), memory_(layout.layers * int64_t{capacity} * bytes_) {
    free_.reserve(capacity);
    for (int32_t slot = capacity; slot-- > 0;) free_.push_back(slot);
  }

  int32_t capacity() const { return capacity_; }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }

  int32_t allocate() {
    if (free_.empty()) throw std::length_error("the decoder state is full");
    const int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void free(int32_t slot) { free_.push_back(slot); }

  // The keys of all heads in a layer, followed by the values; or the state of the layer's recurrent cell.
  void* at(int layer, int32_t slot) { return memory_.data() + (int64_t{layer} * capacity_ + slot) * bytes_; }

 private:
  int64_t bytes_;
  int32_t capacity_;
  LazyBuffer<uint8_t> memory_;
  std::vector<int32_t> free_;
};

// The slots of one sentence. The destructor frees them, also when the sentence's constructor throws.
class KvReservation {
 public:
  KvReservation(KvPool& pool, int64_t max_slots) : pool_(pool) { slots_.reserve(max_slots); }
  KvReservation(const KvReservation&) = delete;
  KvReservation& operator=(const KvReservation&) = delete;
  // Frees the last slot first, so that neighbouring slots are allocated together again.
  ~KvReservation() {
    for (std::size_t i = slots_.size(); i-- > 0;) pool_.free(slots_[i]);
  }

  void allocate() { slots_.push_back(pool_.allocate()); }
  std::size_t size() const { return slots_.size(); }
  int32_t operator[](std::size_t index) const { return slots_[index]; }
  const int32_t* data() const { return slots_.data(); }

 private:
  KvPool& pool_;
  std::vector<int32_t> slots_;
};

}  // namespace dragoman
