// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/codec_times.h"

namespace banyan {

std::optional<double> time_of(uint64_t bytes, std::span<const TimedLength> lengths) {
  const TimedLength* shorter = nullptr;
  const TimedLength* longer = nullptr;
  for (const TimedLength& each : lengths) {
    if (each.bytes <= bytes && (shorter == nullptr || each.bytes > shorter->bytes)) shorter = &each;
    if (each.bytes >= bytes && (longer == nullptr || each.bytes < longer->bytes)) longer = &each;
  }
  if (shorter == nullptr) return longer == nullptr ? std::nullopt : std::optional(longer->us);
  const auto behind = static_cast<double>(bytes - shorter->bytes);
  if (longer == nullptr) return shorter->us * (1 + behind / static_cast<double>(shorter->bytes));
  if (longer->bytes == shorter->bytes) return longer->us;
  const auto apart = static_cast<double>(longer->bytes - shorter->bytes);
  return shorter->us + (longer->us - shorter->us) * behind / apart;
}

std::optional<double> time_of(uint64_t bytes, const CodecChoice& choice,
                              std::span<const CodecTime> times) {
  std::vector<TimedLength> lengths;
  for (const CodecTime& each : times)
    if (each.choice == choice) lengths.push_back({each.bytes, each.us});
  return time_of(bytes, lengths);
}

}  // namespace banyan
