// Memory for vectors of numbers: aligned to cache lines, and large ones taken lazily.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace dragoman {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{1} << 21;

// An array that starts at a cache line, or at a huge page if it fills one: weights and states are read from
// end to end, and small pages cost a look-up each. Never copied.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) { resize(size); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  // Room for at least `size` numbers; what was there is lost if it grows. New memory holds zeros.
  void resize(int64_t size) {
    if (size <= size_) return;
    const std::size_t wanted = size * sizeof(T);
    const std::size_t unit = wanted >= kHugePage ? kHugePage : kCacheLine;
    const std::size_t bytes = (wanted + unit - 1) / unit * unit;
    void* fresh = std::aligned_alloc(unit, bytes);
    if (fresh == nullptr) throw std::bad_alloc();
    if (unit == kHugePage) madvise(fresh, bytes, MADV_HUGEPAGE);  // a wish: refused, it costs speed only
    std::memset(fresh, 0, bytes);
    std::free(data_);
    data_ = static_cast<T*>(fresh);
    size_ = size;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T* data_ = nullptr;
  int64_t size_ = 0;
};

// A large array of zeros of which only the pages that were written to occupy memory.
template <typename T>
class LazyBuffer {
 public:
  explicit LazyBuffer(int64_t size) : bytes_(size * sizeof(T)) {
    if (bytes_ == 0) return;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* fresh = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (fresh == MAP_FAILED) throw std::bad_alloc();
    madvise(fresh, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<T*>(fresh);
  }
  LazyBuffer(const LazyBuffer&) = delete;
  LazyBuffer& operator=(const LazyBuffer&) = delete;
  ~LazyBuffer() {
    if (bytes_ != 0) munmap(data_, bytes_);
  }

  T* data() { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace dragoman
