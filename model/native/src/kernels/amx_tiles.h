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
constexpr int64_t kPrefetchBytes = 8192;              // ahead of a strip's weights
constexpr int kBlockSide = kTilesAcross * kTileSide;  // rows and columns of a block of sums

// How the eight tiles are used: four tiles of sums, in two rows or side by side, and tiles of the factors.
enum class TileUse { block, strip };

// Configures the calling thread's tiles for blocks of `rows` rows, at most kBlockSide, or for strips of at most
// kTileSide rows, and releases them at its end.
class TileScope {
 public:
  explicit TileScope(int64_t rows = kBlockSide, TileUse use = TileUse::block) { configure(rows, use); }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

  // Reconfigures the tiles; their contents are lost.
  static void configure(int64_t rows, TileUse use = TileUse::block) {
    struct alignas(64) {
      uint8_t palette = 1, first_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } shapes;
    const auto upper = static_cast<uint8_t>(std::min<int64_t>(rows, kTileSide));
    const auto lower = static_cast<uint8_t>(std::max<int64_t>(rows - kTileSide, 1));
    constexpr int kTiles = 8, kSums = 4;
    const bool is_strip = use == TileUse::strip;
    const int first_right = is_strip ? 5 : 6;
    for (int i = 0; i < kTiles; ++i) {
      shapes.bytes[i] = kTileSide * sizeof(int32_t);
      const bool is_lower = !is_strip && (i < kSums ? i >= 2 : i == kSums + 1);
      shapes.rows[i] = i >= first_right ? kTileSide : is_lower ? lower : upper;
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

// Multiplies a strip of rows by four tiles of columns side by side, so that the right factor, whose rows must be those
// four tiles wide, is read from end to end. The first strip prefetches it for the others.
template <TileNumbers kNumbers, bool kPrefetches>
inline void multiply_tile_strip(const TileProduct& all) {
  constexpr int64_t kRowBytes = kTileSide * sizeof(int32_t), kStepBytes = 4 * kTileSide * kRowBytes;
  const char *left = static_cast<const char*>(all.left), *right = static_cast<const char*>(all.right);
  const char* start = static_cast<const char*>(all.start);
  asm volatile("" ::: "memory");
  _tile_loadd(0, start, all.start_stride);
  _tile_loadd(1, start + kRowBytes, all.start_stride);
  _tile_loadd(2, start + 2 * kRowBytes, all.start_stride);
  _tile_loadd(3, start + 3 * kRowBytes, all.start_stride);
  for (int64_t word = 0; word < all.words; word += kTileSide, left += kRowBytes, right += kStepBytes) {
    for (int64_t line = 0; kPrefetches && line < kStepBytes; line += 64) {
      __builtin_prefetch(right + kPrefetchBytes + line);
    }
    _tile_loadd(4, left, all.left_stride);
    _tile_loadd(5, right, 4 * kRowBytes);
    DRAGOMAN_ADD_TILES(kNumbers, 0, 4, 5)
    _tile_loadd(6, right + kRowBytes, 4 * kRowBytes);
    DRAGOMAN_ADD_TILES(kNumbers, 1, 4, 6)
    _tile_loadd(7, right + 2 * kRowBytes, 4 * kRowBytes);
    DRAGOMAN_ADD_TILES(kNumbers, 2, 4, 7)
    _tile_loadd(5, right + 3 * kRowBytes, 4 * kRowBytes);
    DRAGOMAN_ADD_TILES(kNumbers, 3, 4, 5)
  }
  char* sums = static_cast<char*>(all.sums);
  _tile_stored(0, sums, all.sums_stride);
  _tile_stored(1, sums + kRowBytes, all.sums_stride);
  _tile_stored(2, sums + 2 * kRowBytes, all.sums_stride);
  _tile_stored(3, sums + 3 * kRowBytes, all.sums_stride);
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
