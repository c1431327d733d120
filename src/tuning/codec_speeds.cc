// SPDX-License-Identifier: Apache-2.0

#include "src/tuning/codec_speeds.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "algorithms/choice/codec_costs.h"
#include "compression/codecs.h"
#include "compression/grammar.h"
#include "src/base/clock.h"

namespace banyan {
namespace {

constexpr size_t kValues = 16384;
constexpr int kTimes = 4;

// Evenly between -1 and 1, in no order: the multiplier is that of Knuth's MMIX.
std::vector<float> some_values() {
  std::vector<float> values(kValues);
  uint64_t state = 1;
  for (float& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31F;
  }
  return values;
}

// GB/s of the fastest time.
template <typename Work>
double rate_of(Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int time = 0; time < kTimes; ++time) {
    const TimePoint begin = Clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return kValues * sizeof(float) * 1e-9 / std::max(least, 1e-9);
}

}  // namespace

std::vector<MeasuredCodec> measure_codecs(std::span<const CodecChoice> choices) {
  constexpr DataType kType = DataType::kFloat32;
  const std::vector<float> values = some_values();
  std::vector<float> sum(kValues);
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  auto* to = reinterpret_cast<std::byte*>(sum.data());
  std::vector<MeasuredCodec> measured;
  for (const CodecChoice& choice : choices) {
    const Codec& codec = codecs()[choice.codec - size_t{1}];
    Coding coding = coding_of(choice, kType);
    if (depends_on_data(choice)) coding.parameter = 1 - kAssumedShare;
    std::vector<std::byte> message(codec.capacity(coding, kType, kValues));
    Encoded said;
    MeasuredCodec& each = measured.emplace_back(MeasuredCodec{.choice = choice});
    each.encode_GBps = rate_of(
        [&] { said = codec.encode(coding, kType, from, kValues, message.data(), nullptr); });
    each.decode_GBps = rate_of([&] {
      (void)codec.decode_add(coding, kType, {message.data(), said.size, said.flags}, kValues, from,
                             to);
    });
  }
  return measured;
}

void complete(MeasuredLinks& links) {
  if (links.between && links.codecs.empty()) links.codecs = measure_codecs(automatic_codecs());
}

}  // namespace banyan
