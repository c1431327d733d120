// All ranks have this of the tuning file of rank 0. Numbers travel as they are, since ranks that
// round differently would choose differently.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "src/base/bytes.h"
#include "src/tuning/tuning_file.h"

namespace banyan {

struct SharedTuning {
  std::string table{};                   // the rules
  MeasuredTimes measured{};              // of each; a runner-up that is no algorithm has no name
  Fingerprint tuned_on{};                // without its processor
  MeasuredLinks links{};                 // none where the fingerprint is not that of the job
  std::vector<CodecTime> codec_times{};  // likewise
  std::vector<std::string> ring{};

  bool operator==(const SharedTuning&) const = default;
};

SharedTuning shared(const TuningFile& file);

// Beside the rules and the names, each with its length, a few numbers: of a link 52 bytes, of a
// codec 16.
inline constexpr size_t kMostTuningPacked = kMostTableText + kMostRingText + 4 * kMostRingHosts +
                                            kMostTiers * (kMostTierName + 56) +
                                            kMostTunedCodecs * (kMostCodecName + 20) + 512;
// Packs all but what was measured of rules, and times of codecs.
Bytes pack(const SharedTuning& tuning);
// Fails with kCorrupt for what no packed tuning can have held, since files are checked: figures
// that are no number above 0, names without letters or beyond the limits, two links beyond one
// level.
Result<SharedTuning> unpack_tuning(std::span<const std::byte> packed);

// The same for what was measured of rules, and for times of codecs: there is no room for them
// beside the rest.
inline constexpr size_t kMostRunnerUp = 24;  // of the name
inline constexpr size_t kMostTimesPacked = 4 + kMostTuningRules * (kMostRunnerUp + 37);
Bytes pack_times(const MeasuredTimes& times);
Result<MeasuredTimes> unpack_times(std::span<const std::byte> packed);
inline constexpr size_t kMostCodecTimesPacked = 4 + kMostCodecTimes * (kMostCodecName + 20);
Bytes pack_codec_times(const std::vector<CodecTime>& times);
Result<std::vector<CodecTime>> unpack_codec_times(std::span<const std::byte> packed);

}  // namespace banyan
