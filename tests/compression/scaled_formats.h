// The formats of scaled blocks once more, in plain code that shares none with the codecs: what a
// message says, and what a value becomes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"

namespace banyan {

inline constexpr size_t kValuesOfSuperblock = 4096;

struct ScaledFormat {
  std::string_view name;
  CodecId codec;
  size_t block;    // values that share a scale
  size_t bits;     // of a code
  DataType scale;  // as what a scale is stored
  float (*scale_of)(float m);
  float (*factor_of)(float m);
  unsigned (*code_of)(float product);
  float (*value_of_code)(unsigned code);
  double (*bound)(double quotient);  // how far off a value is, at most, if the scale is 1

  size_t blocks() const { return kValuesOfSuperblock / block; }
  size_t scales() const { return blocks() * size_of(scale); }
  size_t superblock() const { return scales() + kValuesOfSuperblock * bits / 8; }
  const Codec& by(const Kernels& kernels) const { return kernels.codecs[codec - size_t{1}]; }
};

// int8, int4, dyn8, e4m3 and e5m2.
std::span<const ScaledFormat> scaled_formats();
// What an encoder's codes say, in order.
std::vector<float> numbers_of(const ScaledFormat& format);

// A message as what it says, the values that fill it up included.
struct Said {
  std::vector<float> scales;
  std::vector<unsigned> codes;
};
Said read(const ScaledFormat& format, const Memory& message);
Said expected(const ScaledFormat& format, const std::vector<float>& values);

}  // namespace banyan
