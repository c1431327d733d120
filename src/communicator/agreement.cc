// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/choice/compression.h"
#include "src/base/bytes.h"
#include "src/base/parse.h"
#include "src/base/process.h"
#include "src/communicator/settings.h"
#include "src/cuda/device_memory.h"
#include "src/tuning/codec_speeds.h"
#include "transports/transport.h"

namespace banyan {
namespace {

constexpr size_t kMostSetting = 4096;  // characters
static_assert(kMostSetting >= kMostRulesText);
// The settings, each with its length, and what rank 0 has of its file go in one round.
static_assert(6 * (kMostSetting + 4) + kMostTuningPacked + 256 <= kExchangeMost);
static_assert(kMostTimesPacked + kMostCodecTimesPacked + 16 <= kExchangeMost);
// Also where another version would choose otherwise by itself, as by another default table.
constexpr uint32_t kMessagesVersion = 11;

struct SharedSetting {
  std::string_view name;
  std::string value;
};

std::string compression_text(const Settings& settings) {
  const Compression& compression = settings.compression;
  if (compression.is_exact()) return settings.has_ceiling ? "exact" : "off";
  return fmt::format("{} from {} bytes on, seed {}", text_of(compression), compression.least_bytes,
                     compression.seed);
}

std::vector<SharedSetting> shared_settings(const Settings& settings) {
  return {{"the wire version", std::to_string(kMessagesVersion)},
          {"BANYAN_ALGO", settings.environment.algorithm},
          {"the compression (BANYAN_COMPRESS)", compression_text(settings)},
          {"BANYAN_CHECK", settings.environment.check ? "on" : "off"},
          {"BANYAN_TRANSPORTS", transport_list(settings.transports)},
          {"determinism", settings.invariant ? "invariant" : "deterministic"}};
}

struct Compared {
  uint32_t number = 0;
  ClusterWish wish = ClusterWish::kNothing;  // of rank 0
  Bytes tuning;                              // of rank 0
  bool all_know_gpus = true;
};

Result<Compared> compare_settings(Exchange& exchange, const Settings& settings,
                                  TimePoint deadline) {
  const uint32_t own_number = process().communicators_begun.fetch_add(1) + 1;
  const std::vector<SharedSetting> mine = shared_settings(settings);
  Writer writer;
  for (const SharedSetting& setting : mine) writer.put_text(setting.value);
  writer.put(own_number);
  writer.put(cluster_wish(settings.environment));
  look_for_cuda_driver();
  writer.put(static_cast<uint8_t>(knows_devices() ? 1 : 0));
  const SharedTuning tuning = settings.tuning.value_or(SharedTuning());
  writer.put_bytes(exchange.rank() == 0 && tuning != SharedTuning() ? pack(tuning) : Bytes());
  const Result<std::vector<Bytes>> all = exchange.allgather(writer.bytes(), deadline);
  BANYAN_TRY(all.status());

  // Compared with rank 0 by everybody, so that all of them name the same two ranks.
  Compared agreed;
  const auto values_of = [&](size_t rank) -> Result<std::vector<std::string>> {
    Reader reader((*all)[rank]);
    std::vector<std::string> values;
    for (size_t i = 0; i < mine.size(); ++i) values.push_back(reader.get_text(kMostSetting));
    agreed.number = std::max(agreed.number, reader.get<uint32_t>());
    const auto wish = reader.get<ClusterWish>();
    const auto knows_gpus = reader.get<uint8_t>();
    agreed.all_know_gpus = agreed.all_know_gpus && knows_gpus == 1;
    const std::span<const std::byte> given = reader.get_bytes(kMostTuningPacked);
    if (rank == 0) agreed.wish = wish;
    if (rank == 0) agreed.tuning.assign(given.begin(), given.end());
    if (!reader.at_end() || wish > ClusterWish::kDiscovery || knows_gpus > 1)
      return Status(Code::kCorrupt, fmt::format("rank {} sent settings that cannot be read", rank));
    return values;
  };
  const auto first = values_of(0);
  BANYAN_TRY(first.status());
  for (size_t rank = 1; rank < all->size(); ++rank) {
    const auto other = values_of(rank);
    BANYAN_TRY(other.status());
    for (size_t i = 0; i < mine.size(); ++i)
      if ((*other)[i] != (*first)[i])
        return Status(
            Code::kMismatch,
            fmt::format("{} differs: rank 0 has '{}', rank {} has '{}'; set it alike on all "
                        "ranks",
                        mine[i].name, printable((*first)[i]), rank, printable((*other)[i])));
  }
  return agreed;
}

// Rank 0 reads the file for all of them, and measures what it lacks; the ranks of a split have the
// parent's.
Result<std::optional<TuningFile>> tuning_of(const Exchange& exchange, Settings& settings) {
  if (exchange.rank() != 0 || settings.tuning.has_value()) return std::optional<TuningFile>();
  Result<std::optional<TuningFile>> file = read_tuning(settings.environment);
  if (file.ok() && file->has_value()) {
    settings.tuning = shared(**file);
    complete(settings.tuning->links);
  }
  return file;
}

// FNV-1a.
uint64_t hash_of(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

// Everybody gets the same, or nobody goes on: a rank that chose by another one would hang the rest.
// An exchange of the caller's could bring anything.
Status adopt_tuning(Exchange& exchange, const Bytes& packed, Settings& settings,
                    TimePoint deadline) {
  const SharedTuning own = settings.tuning.value_or(SharedTuning());
  settings.tuning = SharedTuning();
  if (packed.empty()) return {};
  const auto about_rank_0 = [](const Status& status) {
    return Status(status.code(), fmt::format("the tuning of rank 0: {}", status.message()));
  };
  Result<SharedTuning> tuning = unpack_tuning(packed);
  if (!tuning.ok()) return about_rank_0(tuning.status());
  Writer writer;
  writer.put(hash_of(packed));
  const bool gives = exchange.rank() == 0;
  writer.put_bytes(gives ? pack_times(own.measured) : Bytes());
  writer.put_bytes(gives ? pack_codec_times(own.codec_times) : Bytes());
  const Result<std::vector<Bytes>> all = exchange.allgather(writer.bytes(), deadline);
  BANYAN_TRY(all.status());
  Reader first(all->front());
  const auto hash = first.get<uint64_t>();
  for (size_t rank = 1; rank < all->size(); ++rank)
    if (Reader((*all)[rank]).get<uint64_t>() != hash)
      return {Code::kMismatch,
              fmt::format("rank {} has another tuning than rank 0, which gave it", rank)};
  Result<MeasuredTimes> times = unpack_times(first.get_bytes(kMostTimesPacked));
  if (!times.ok()) return about_rank_0(times.status());
  tuning->measured = std::move(*times);
  Result<std::vector<CodecTime>> codec_times =
      unpack_codec_times(first.get_bytes(kMostCodecTimesPacked));
  if (!codec_times.ok()) return about_rank_0(codec_times.status());
  tuning->codec_times = std::move(*codec_times);
  Result<Rules> rules = parse_table(tuning->table, tuning->measured);
  if (!rules.ok()) return about_rank_0(rules.status());
  settings.tuning = std::move(*tuning);
  settings.rules = join_rules(std::move(settings.rules), std::move(*rules));
  return {};
}

}  // namespace

Result<Agreement> agree_on_settings(Exchange& exchange, Settings& settings, TimePoint deadline) {
  Result<std::optional<TuningFile>> file = tuning_of(exchange, settings);
  BANYAN_TRY(file.status());
  const Result<Compared> compared = compare_settings(exchange, settings, deadline);
  BANYAN_TRY(compared.status());
  settings.all_know_gpus = compared->all_know_gpus;
  BANYAN_TRY(adopt_tuning(exchange, compared->tuning, settings, deadline));
  return Agreement{compared->number, compared->wish, std::move(*file)};
}

std::string transport_list(std::span<const int> kinds) {
  std::string text;
  for (const int kind : kinds) {
    if (!text.empty()) text += ',';
    text += transport_kinds()[static_cast<size_t>(kind)].name;
  }
  return text;
}

}  // namespace banyan
