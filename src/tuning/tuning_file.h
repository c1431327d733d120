// The tuning file says which algorithms were found fastest on a machine, as rules in the grammar of
// BANYAN_ALGO beside what was measured. A value, and its JSON:
//
//   {"schema": 1, "library": "0.1.0",
//    "fingerprint": {"cpu": "AMD EPYC", "cores": 2, "ranks": 4, "hosts": 1, "transports": "shm",
//    "ppn": 4}, "links": [
//      {"where": "within", "latency_us": 0.3, "busy_latency_us": 0.5, "message_us": 0.1,
//       "GBps": 8.5, "busy_GBps": 6, "pairs": 2, "spread": 0},
//      {"where": "beyond leaf", ...}],
//    "sums": {"GBps": 20, "far_GBps": 4},
//    "codecs": [{"codec": "int8", "encode_GBps": 7, "decode_GBps": 9}],
//    "codec_times": [{"codec": "off", "bytes": 4096, "us": 12.5},
//                    {"codec": "int8", "bytes": 4096, "us": 9.5}],
//    "ring": ["node1", "node3", "node2"], "rules": [
//      {"rule": "allreduce size=0-12K ranks=4-4 nodes=1-1 dtype=float32: star", "bytes": 4096,
//       "measured_us": 12.5, "runs": 7, "runner_up": "direct", "runner_up_us": 14.25}]}
//
// docs/tuning.md lists the members. The rules may be written and changed by hand: what was measured
// is for readers.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/codec_times.h"
#include "algorithms/choice/select.h"
#include "algorithms/cost/measured_links.h"
#include "banyan/status.h"

namespace banyan {

inline constexpr int kTuningSchema = 1;
inline constexpr size_t kMostTuningBytes = size_t{1} << 20;  // of the file
inline constexpr size_t kMostTuningRules = 512;
inline constexpr size_t kMostTableText = 32 * 1024;  // of all rules, which ranks tell each other

inline constexpr size_t kMostTiers = 8;  // levels above hosts of which there are links
inline constexpr size_t kMostTierName = 64;

inline constexpr size_t kMostTunedCodecs = 8;
inline constexpr size_t kMostCodecName = 16;
inline constexpr size_t kMostCodecTimes = 128;

inline constexpr size_t kMostRingHosts = 512;
inline constexpr size_t kMostRingText = 4096;  // of all their names

// What choices depend on and rules do not say.
struct Fingerprint {
  std::string cpu{};  // its model; empty: unknown
  int cores = 0;      // of the host of rank 0; where ranks share them, those that they may use
  int ranks = 0;
  int hosts = 0;
  int ppn = 0;               // ranks of the host that has most; 0: unknown
  std::string transports{};  // "shm,ucx", as rank 0 uses them

  bool operator==(const Fingerprint&) const = default;
};
// "8 ranks instead of 4, ucx instead of shm"; empty: none.
std::string difference(const Fingerprint& tuned, const Fingerprint& here);

using MeasuredTimes = std::vector<std::optional<Measured>>;  // of each rule

struct TuningRule {
  std::string text{};  // one rule of the grammar in algorithms/choice/select.h
  std::optional<Measured> measured{};

  bool operator==(const TuningRule&) const = default;
};

struct TuningFile {
  std::string version{};  // of the library that wrote it
  Fingerprint tuned_on{};
  MeasuredLinks links{};  // none: the file has no member for them
  std::vector<CodecTime> codec_times{};
  // These are the names of hosts in the order in which rings should go through them; empty: no
  // other than without a file.
  std::vector<std::string> ring{};
  std::vector<TuningRule> rules{};

  // "RULE; RULE", as BANYAN_ALGO would have them.
  std::string table() const;
  // What was measured of each of them.
  MeasuredTimes measured() const;
  bool operator==(const TuningFile&) const = default;
};

// One line for each rule.
std::string to_json(const TuningFile& file);
// Fails with kInvalidArgument "line N: ...", which says what would be right, for
//
//   what is no JSON, is of another schema, or is beyond the limits
//   unknown members (they may be misspelt ones)
//   rules that do not parse
Result<TuningFile> parse_tuning(std::string_view text);
// The rules of table(), with what was measured of them. kInvalidArgument "rule N: ...".
Result<Rules> parse_table(std::string_view table, const MeasuredTimes& measured = {});

// Errors begin with the path. Reading never waits; see file.h about replacing.
Result<TuningFile> read_tuning_file(const std::string& path);
Status write_tuning_file(const std::string& path, const TuningFile& file);

}  // namespace banyan
