// Products of tiles, as AMX has them: 16 rows of 64 bytes times 16 rows of 64 bytes, added to 16 × 16 sums.
//
// Words of 32 bits hold neighbours along the inner dimension, two bfloat16 numbers or four integers. Of the left
// factor a tile has 16 rows of 16 words; of the right one 16 words, one below the other, of 16 columns. Four tiles of
// sums, two rows by two columns, keep each tile that is loaded busy twice.
#pragma once

#if defined(__AMX_TILE__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace dragoman {

constexpr int kTileSide = 16;  // rows, words and columns
constexpr int kTilesAcross = 2;
constexpr int kBlockSide = kTilesAcross * kTileSide;  // of the sums that are computed at once

// Sets up the calling thread's tiles for blocks of so many rows, kBlockSide at most; the state is empty again when it
// ends.
class TileScope {
 public:
  explicit TileScope(int64_t rows = kBlockSide) { fit(rows); }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

  // What the tiles hold is lost.
  static void fit(int64_t rows) {
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
    asm volatile("" ::"r"(&shapes) : "memory");  // the compiler thinks that only the first bytes are read
    _tile_loadconfig(&shapes);
  }
};

// Distances are in bytes, from one row to the next.
struct TileProduct {
  const void* left;
  int64_t left_stride;
  const void* right;
  int64_t right_stride;
  int64_t words;      // of the inner dimension, a multiple of kTileSide
  const void* start;  // what the sums start from
  int64_t start_stride;
  void* sums;
  int64_t sums_stride;
};

enum class TileNumbers { bfloat16, bytes };  // bytes: of the left factor without a sign, of the right one with

// The intrinsics want the names of tiles spelt out.
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
  asm volatile("" ::: "memory");  // the compiler does not know that tiles are read from memory
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

// A block of exactly the rows that the tiles were fitted for, and one or two tiles' columns.
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
