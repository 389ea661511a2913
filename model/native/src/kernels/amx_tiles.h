// Products of AMX tiles: 16 rows of 64 bytes times 16 rows of 64 bytes, added to 16 × 16 sums.
//
// A word of 32 bits holds neighbours along the inner dimension: two bfloat16 numbers or four integers. A tile of the
// left factor has 16 rows of 16 words; one of the right factor has 16 words, one below the other, of 16 columns. Blocks
// of 2 × 2 tiles of sums use every loaded tile twice.
#pragma once

#if defined(__AMX_TILE__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace dragoman {

constexpr int kTileSide = 16;  // rows, words and columns
constexpr int kTilesAcross = 2;
constexpr int kBlockSide = kTilesAcross * kTileSide;  // rows and columns of a block of sums

// Configures the calling thread's tiles for blocks of `rows` rows, at most kBlockSide, and releases them at its end.
class TileScope {
 public:
  explicit TileScope(int64_t rows = kBlockSide) { configure(rows); }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

  // Reconfigures the tiles; their contents are lost.
  static void configure(int64_t rows) {
    struct alignas(64) {
      uint8_t palette = 1, first_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } shapes;
    const auto upper = static_cast<uint8_t>(std::min<int64_t>(rows, kTileSide));
    const auto lower = static_cast<uint8_t>(std::max<int64_t>(rows - kTileSide, 1));
    constexpr int kSums = 4, kLeft = 6;
    for (int i = 0; i < kLeft + 2; ++i) {
      shapes.bytes[i] = kTileSide * sizeof(int32_t);
      const bool is_lower = i < kSums ? i >= 2 : i == kSums + 1;
      shapes.rows[i] = i >= kLeft ? kTileSide : is_lower ? lower : upper;
    }
    asm volatile("" ::"r"(&shapes) : "memory");  // the intrinsic declares only the first bytes as read
    _tile_loadconfig(&shapes);
  }
};

// Strides are in bytes, from one row to the next.
struct TileProduct {
  const void* left;
  int64_t left_stride;
  const void* right;
  int64_t right_stride;
  int64_t words;      // of the inner dimension, a multiple of kTileSide
  const void* start;  // initial values of the sums
  int64_t start_stride;
  void* sums;
  int64_t sums_stride;
};

enum class TileNumbers { bfloat16, bytes };  // bytes: the left factor is unsigned, the right one signed

// The intrinsics take tile numbers only as literals.
#define DRAGOMAN_ADD_TILES(kind, sums, left, right) \
  if constexpr (kind == TileNumbers::bfloat16) {    \
    _tile_dpbf16ps(sums, left, right);              \
  } else {                                          \
    _tile_dpbusd(sums, left, right);                \
  }

template <TileNumbers kNumbers, int kRows, int kColumns>
inline void multiply_tiles(const TileProduct& all) {
  constexpr int64_t kRowBytes = kTileSide * sizeof(int32_t);
  const char* left = static_cast<const char*>(all.left);
  const char* lower = left + kTileSide * all.left_stride;
  const char* right = static_cast<const char*>(all.right);
  const char* start = static_cast<const char*>(all.start);
  const char* lower_start = start + kTileSide * all.start_stride;
  asm volatile("" ::: "memory");  // the intrinsics do not declare the memory that they read
  _tile_loadd(0, start, all.start_stride);
  if constexpr (kColumns > 1) _tile_loadd(1, start + kRowBytes, all.start_stride);
  if constexpr (kRows > 1) _tile_loadd(2, lower_start, all.start_stride);
  if constexpr (kRows > 1 && kColumns > 1) _tile_loadd(3, lower_start + kRowBytes, all.start_stride);
  for (int64_t word = 0; word < all.words; word += kTileSide) {
    _tile_loadd(4, left, all.left_stride);
    _tile_loadd(6, right, all.right_stride);
    DRAGOMAN_ADD_TILES(kNumbers, 0, 4, 6)
    if constexpr (kColumns > 1) {
      _tile_loadd(7, right + kRowBytes, all.right_stride);
      DRAGOMAN_ADD_TILES(kNumbers, 1, 4, 7)
    }
    if constexpr (kRows > 1) {
      _tile_loadd(5, lower, all.left_stride);
      DRAGOMAN_ADD_TILES(kNumbers, 2, 5, 6)
      if constexpr (kColumns > 1) {
        DRAGOMAN_ADD_TILES(kNumbers, 3, 5, 7)
      }
    }
    left += kRowBytes;
    lower += kRowBytes;
    right += kTileSide * all.right_stride;
  }
  char* sums = static_cast<char*>(all.sums);
  char* lower_sums = sums + kTileSide * all.sums_stride;
  _tile_stored(0, sums, all.sums_stride);
  if constexpr (kColumns > 1) _tile_stored(1, sums + kRowBytes, all.sums_stride);
  if constexpr (kRows > 1) _tile_stored(2, lower_sums, all.sums_stride);
  if constexpr (kRows > 1 && kColumns > 1) _tile_stored(3, lower_sums + kRowBytes, all.sums_stride);
  asm volatile("" ::: "memory");
}

#undef DRAGOMAN_ADD_TILES

// Multiplies a block of exactly the rows that the tiles are configured for, and the columns of one or two tiles.
template <TileNumbers kNumbers>
inline void multiply_tile_block(const TileProduct& all, int64_t rows, int64_t columns) {
  const bool is_low = rows <= kTileSide, is_narrow = columns <= kTileSide;
  if (is_low && is_narrow) return multiply_tiles<kNumbers, 1, 1>(all);
  if (is_low) return multiply_tiles<kNumbers, 1, 2>(all);
  if (is_narrow) return multiply_tiles<kNumbers, 2, 1>(all);
  return multiply_tiles<kNumbers, 2, 2>(all);
}

}  // namespace dragoman

#endif
