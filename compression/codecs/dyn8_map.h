// The 256 values that "dyn8" knows, and how the nearest one is found.
//
//   place       value
//   127         0
//   128 - 254   10^(e-6) x (0.1 + 0.9 x (2j+1) / 2^(e+1)) for e from 0 to 6, j from 0 to 2^e - 1
//   255         1
//   126 - 0     those of 128 to 254, negative
//
// Between neighbours is an edge, their mean. The lower neighbour has it. To find a place, the
// magnitudes from 2^-22 to 1 are cut into cells by their exponent and six bits of their mantissa,
// so narrow that none has two edges. Below them all is zero.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <initializer_list>

#include "compression/float_formats.h"

namespace banyan {
namespace {

struct DynamicMap {
  float value[256];
  uint32_t bits[256];  // of the same
};

consteval DynamicMap make_dynamic_map() {
  constexpr double kDecades[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  DynamicMap map{};
  size_t place = 128;
  for (int e = 0; e < 7; ++e) {
    for (int j = 0; j < 1 << e; ++j, ++place) {
      const double value = kDecades[e] * (0.1 + 0.9 * (2 * j + 1) / (2 << e));
      map.value[place] = static_cast<float>(value);
      map.value[254 - place] = -map.value[place];
    }
  }
  map.value[255] = 1;
  for (size_t i = 0; i < 256; ++i) map.bits[i] = __builtin_bit_cast(uint32_t, map.value[i]);
  return map;
}

inline constexpr DynamicMap kDynamicMap = make_dynamic_map();
#ifdef __CUDACC__  // code of a GPU has a table of its own, in its memory
const __device__ DynamicMap kDynamicMapThere = make_dynamic_map();
#endif

constexpr float value_in_map(uint8_t place) {
#ifdef __CUDA_ARCH__
  return kDynamicMapThere.value[place];
#else
  return kDynamicMap.value[place];
#endif
}

// Cells of the positive numbers, then of the negative ones. A cell has in its lowest 8 bits the
// lower place of the two around its edge, and above them where in the cell the magnitudes at the
// edge's far side begin.
struct DynamicCells {
  static constexpr uint32_t kLow = __builtin_bit_cast(uint32_t, power_of_two(-22));
  static constexpr uint32_t kHigh = __builtin_bit_cast(uint32_t, 1.0F);
  static constexpr int kShift = Float32::kMantissaBits - 6;
  static constexpr uint32_t kInside = (1 << kShift) - 1;
  static constexpr size_t kCount = ((kHigh - kLow) >> kShift) + 1;
  uint32_t cell[2 * kCount];
};

// The smallest magnitude beyond the edge of a place and the next one away from zero, as bits.
consteval uint32_t beyond_edge(int place, int next) {
  const double edge = (static_cast<double>(kDynamicMap.value[place]) + kDynamicMap.value[next]) / 2;
  const double magnitude = edge < 0 ? -edge : edge;
  const auto nearest = static_cast<float>(magnitude);
  const bool is_below = nearest < magnitude || (edge > 0 && nearest == magnitude);
  return __builtin_bit_cast(uint32_t, nearest) + (is_below ? 1 : 0);
}

consteval DynamicCells make_dynamic_cells() {
  DynamicCells cells{};
  for (const bool negative : {false, true}) {
    const int last = negative ? 0 : 255;
    int place = 127;
    for (uint32_t i = 0; i < DynamicCells::kCount; ++i) {
      // Without an edge a cell has the place itself, whether counted to its near or its far side.
      uint32_t edge = negative ? 0 : DynamicCells::kInside + 1;
      int lower = place;
      const int next = negative ? place - 1 : place + 1;
      if (place != last) {
        const uint32_t begin = DynamicCells::kLow + (i << DynamicCells::kShift);
        const uint32_t inside = beyond_edge(place, next) - begin;
        if (inside <= DynamicCells::kInside) {
          edge = inside;
          lower = negative ? next : place;
          place = next;
        }
      }
      cells.cell[(negative ? DynamicCells::kCount : 0) + i] =
          edge << 8 | static_cast<uint32_t>(lower);
    }
  }
  return cells;
}

inline constexpr DynamicCells kDynamicCells = make_dynamic_cells();
#ifdef __CUDACC__
const __device__ DynamicCells kDynamicCellsThere = make_dynamic_cells();
#endif

constexpr uint32_t cell_at(size_t place) {
#ifdef __CUDA_ARCH__
  return kDynamicCellsThere.cell[place];
#else
  return kDynamicCells.cell[place];
#endif
}

constexpr uint8_t nearest_in_map(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const bool negative = bits >> Float32::kSignShift != 0;
  uint32_t magnitude = bits & Float32::kMagnitude;
  magnitude = magnitude < DynamicCells::kLow ? DynamicCells::kLow : magnitude;
  magnitude = magnitude > DynamicCells::kHigh ? DynamicCells::kHigh : magnitude;
  const size_t place = ((magnitude - DynamicCells::kLow) >> DynamicCells::kShift) +
                       (negative ? DynamicCells::kCount : 0);
  const uint32_t cell = cell_at(place);
  const bool reached = (magnitude & DynamicCells::kInside) >= cell >> 8;
  return static_cast<uint8_t>((cell & 0xff) + (reached != negative ? 1 : 0));
}

}  // namespace
}  // namespace banyan
