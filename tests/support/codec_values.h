// The tests of the codecs share this: values of every kind, and short ways to send them through.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/codec.h"
#include "tests/support/kernels_reference.h"

namespace banyan {

inline constexpr DataType kCodedTypes[] = {DataType::kFloat32, DataType::kFloat16,
                                           DataType::kBfloat16};

// Runs of 256 values, each of a kind: gradients, ties, zeros, tiny, subnormal and huge numbers,
// any bits with or without NaN and infinity. The same on every machine.
// They are kept, as to make them takes longer than to encode them. Not for several threads.
const Memory& mixed_values(DataType type, uint64_t count, uint64_t seed);

Memory memory_of(const std::vector<float>& values);
// With ones in the place of NaN and infinities.
Memory finite_of(DataType type, Memory values);

// A codec with what it goes by, as the conformance suite tries it.
struct CodecCase {
  std::string_view name;  // of letters, digits and '_'
  CodecId codec;
  Coding coding{};
  bool is_sparse = false;  // an addend keeps its bits where a message says +0 or nothing
};
std::span<const CodecCase> codec_cases();

// A message, and what its encoder says of it.
struct Message {
  Memory bytes;
  Encoded said;

  CodecMessage view() const { return {bytes.data(), bytes.size(), said.flags}; }
};
// `left`, if there is one, becomes what the message does not say.
Message encoded(const Codec& codec, const Coding& coding, DataType type, const Memory& values,
                Memory* left = nullptr);
// Empty: it was refused.
Memory decode(const Codec& codec, const Coding& coding, DataType type, const Message& message,
              uint64_t count);

// All that a codec makes of values: the message, what it leaves, what it decodes to, and the sum of
// that and the values.
std::vector<Memory> all_made_of(const Codec& codec, const Coding& coding, DataType type,
                                const Memory& values);

// Exactly.
std::vector<float> wide(DataType type, const Memory& values);
// The distance of the type's numbers at a magnitude.
double unit_of(DataType type, double magnitude);

}  // namespace banyan
