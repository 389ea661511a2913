// Memory for SIMD kernels: arrays aligned to cache lines or huge pages, and lazily mapped arrays.
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

// A move-only array, aligned to a cache line, or to a huge page if it fills one: every small page would cost a TLB
// miss.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  // A part of memory that another object owns.
  Buffer(T* data, int64_t size) : data_(data), size_(size), owns_(false) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(owns_, other.owns_);
    return *this;
  }
  ~Buffer() { release(); }

  // Makes the array hold at least `size` numbers. Growing discards the contents and fills the array with zeros.
  void resize(int64_t size) {
    if (size <= size_) return;
    const std::size_t wanted = size * sizeof(T);
    const std::size_t unit = wanted >= kHugePage ? kHugePage : kCacheLine;
    const std::size_t bytes = (wanted + unit - 1) / unit * unit;
    void* fresh = std::aligned_alloc(unit, bytes);
    if (fresh == nullptr) throw std::bad_alloc();
    // Advice: without huge pages the code is only slower. The end, which fills no huge page, would waste one.
    if (unit == kHugePage) madvise(fresh, wanted / unit * unit, MADV_HUGEPAGE);
    std::memset(fresh, 0, wanted);
    release();
    data_ = static_cast<T*>(fresh);
    size_ = size;
    owns_ = true;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }
  bool is_empty() const { return size_ == 0; }

 private:
  void release() {
    if (owns_) std::free(data_);
  }

  T* data_ = nullptr;
  int64_t size_ = 0;
  bool owns_ = true;
};

// A large array of zeros. Only pages that were written occupy memory.
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
