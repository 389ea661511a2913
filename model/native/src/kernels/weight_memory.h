// The memory of a network's weights, which several processes can share.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/buffer.h"

namespace dragoman {

// One mapping, in which arrays follow each other. The same network takes the same arrays in the same order, so that a
// process finds those of another process where it would write its own. Weights are read from end to end, and every
// small page would cost a TLB miss: the mapping consists of huge pages, as far as it fills them.
class WeightMemory {
 public:
  // The caller of the library labels a memory file with so many bytes at its begin.
  static constexpr int64_t kLabelBytes = 64;

  // Only counts what is taken.
  WeightMemory() = default;

  // Maps zeros. With a descriptor they are those of an empty memory file, which gets the size that it needs; a file
  // that is not empty holds what another process wrote, and is read-only. Throws std::invalid_argument if it has
  // another size, and std::bad_alloc without memory.
  WeightMemory(int64_t bytes, int descriptor) : WeightMemory() {  // so that the destructor runs if this throws
    bytes_ = bytes;
    const bool is_shared = descriptor >= 0;
    is_writable_ = !is_shared || size_of(descriptor) == 0;
    if (is_shared && is_writable_) allocate(descriptor, bytes);
    if (is_shared && size_of(descriptor) != bytes) {
      throw std::invalid_argument("the weights of another process must have " + std::to_string(bytes) +
                                  " bytes, but have " + std::to_string(size_of(descriptor)) + " instead");
    }
    // A huge page of a file begins at a multiple of its size in both, the file and the memory.
    reserved_ = map(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    const auto address = reinterpret_cast<uintptr_t>(reserved_);
    data_ = reserved_ + (kHugePage - address % kHugePage) % kHugePage;
    const int protection = is_writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
    const int kind = !is_shared ? MAP_PRIVATE | MAP_ANONYMOUS : is_writable_ ? MAP_SHARED : MAP_PRIVATE;
    map(data_, bytes, protection, MAP_FIXED | kind, descriptor);
    is_shared ? join_pages() : ask_for_huge_pages();
  }

  WeightMemory(WeightMemory&& other) noexcept { *this = std::move(other); }
  WeightMemory& operator=(WeightMemory&& other) noexcept {
    std::swap(reserved_, other.reserved_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(used_, other.used_);
    std::swap(is_writable_, other.is_writable_);
    return *this;
  }
  ~WeightMemory() {
    if (reserved_ != nullptr) munmap(reserved_, bytes_ + kHugePage);
  }

  // The next array, aligned to a cache line. If the memory only counts, nothing may use the array.
  template <typename T>
  Buffer<T> take(int64_t size) {
    T* const data = data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + used_);
    constexpr int64_t kLine = kCacheLine;
    used_ += (size * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
    return {data, size};
  }

  int64_t used() const { return used_; }
  // Whether the arrays are to be written: they are not those of another process.
  bool is_writable() const { return is_writable_; }

  // Makes what was written to a memory file read-only in this process, so that the file can be sealed.
  void seal(int descriptor) {
    if (is_writable_ && descriptor >= 0) {
      map(data_, bytes_, PROT_READ, MAP_FIXED | MAP_PRIVATE, descriptor);
      join_pages();
    }
    is_writable_ = false;
  }

 private:
  static uint8_t* map(uint8_t* at, int64_t bytes, int protection, int flags, int descriptor) {
    void* const mapped = mmap(at, bytes, protection, flags, descriptor, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    return static_cast<uint8_t*>(mapped);
  }

  // Without huge pages the code is only slower. The end, which fills no huge page, would waste one.
  int64_t whole_pages() const { return bytes_ / kHugePage * kHugePage; }
  void ask_for_huge_pages() const { madvise(data_, whole_pages(), MADV_HUGEPAGE); }

  // Makes huge pages of small ones, because most systems give a file no huge pages at first.
  void join_pages() const {
    constexpr int kCollapse = 25;  // MADV_COLLAPSE, since Linux 6.1
    madvise(data_, whole_pages(), kCollapse);
  }

  // Without memory, writing to a page that the file lacks would end the process.
  static void allocate(int descriptor, int64_t bytes) {
    while (const int failure = posix_fallocate(descriptor, 0, bytes)) {
      if (failure != EINTR) throw std::bad_alloc();
    }
  }

  static int64_t size_of(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) throw std::invalid_argument(std::strerror(errno));
    return status.st_size;
  }

  uint8_t* reserved_ = nullptr;
  uint8_t* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t used_ = kLabelBytes;
  bool is_writable_ = false;
};

}  // namespace dragoman
