// SPDX-License-Identifier: Apache-2.0

#include "src/tuning/shared_tuning.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "compression/grammar.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr size_t kMostTransports = 256;

void put_number(Writer& writer, double number) {
  writer.put(std::bit_cast<uint64_t>(number));
}

double get_number(Reader& reader) {
  return std::bit_cast<double>(reader.get<uint64_t>());
}

void put_figures(Writer& writer, const MeasuredLink& link) {
  for (const double number : {link.latency_us, link.busy_latency_us, link.message_us, link.GBps,
                              link.busy_GBps, link.spread})
    put_number(writer, number);
  writer.put(static_cast<int32_t>(link.pairs));
}

MeasuredLink get_figures(Reader& reader) {
  MeasuredLink link;
  for (double* number : {&link.latency_us, &link.busy_latency_us, &link.message_us, &link.GBps,
                         &link.busy_GBps, &link.spread})
    *number = get_number(reader);
  link.pairs = reader.get<int32_t>();
  return link;
}

void put_link(Writer& writer, const std::optional<MeasuredLink>& link) {
  writer.put(static_cast<uint8_t>(link.has_value()));
  if (link) put_figures(writer, *link);
}

std::optional<MeasuredLink> get_link(Reader& reader) {
  if (reader.get<uint8_t>() == 0) return std::nullopt;
  return get_figures(reader);
}

void put_tiers(Writer& writer, const std::vector<MeasuredTier>& tiers) {
  writer.put(static_cast<uint32_t>(tiers.size()));
  for (const MeasuredTier& tier : tiers) {
    writer.put_text(tier.name);
    put_figures(writer, tier.link);
  }
}

// One more than the most is too many.
std::vector<MeasuredTier> get_tiers(Reader& reader) {
  const auto count = reader.get<uint32_t>();
  std::vector<MeasuredTier> tiers;
  for (uint32_t i = 0; i < count && tiers.size() <= kMostTiers && !reader.bad(); ++i) {
    std::string name = reader.get_text(kMostTierName);
    tiers.push_back({.name = std::move(name), .link = get_figures(reader)});
  }
  return tiers;
}

void put_codecs(Writer& writer, const std::vector<MeasuredCodec>& codecs) {
  writer.put(static_cast<uint32_t>(codecs.size()));
  for (const MeasuredCodec& codec : codecs) {
    writer.put_text(text_of(codec.choice));
    put_number(writer, codec.encode_GBps);
    put_number(writer, codec.decode_GBps);
  }
}

// What is no codec is an exact one. One more than the most is too many.
std::vector<MeasuredCodec> get_codecs(Reader& reader) {
  const auto count = reader.get<uint32_t>();
  std::vector<MeasuredCodec> codecs;
  for (uint32_t i = 0; i < count && codecs.size() <= kMostTunedCodecs && !reader.bad(); ++i) {
    const Result<CodecChoice> choice = parse_codec(reader.get_text(kMostCodecName));
    MeasuredCodec& codec = codecs.emplace_back();
    if (choice.ok()) codec.choice = *choice;
    codec.encode_GBps = get_number(reader);
    codec.decode_GBps = get_number(reader);
  }
  return codecs;
}

bool positive(double number) {
  return std::isfinite(number) && number > 0;
}

bool is_sane(const std::optional<MeasuredLink>& link) {
  return !link || (positive(link->latency_us) && positive(link->busy_latency_us) &&
                   (link->message_us == 0 || positive(link->message_us)) && positive(link->GBps) &&
                   positive(link->busy_GBps) && link->pairs > 0 && std::isfinite(link->spread));
}

bool is_sane(const std::vector<MeasuredTier>& tiers) {
  for (auto tier = tiers.begin(); tier != tiers.end(); ++tier) {
    const auto is_same = [&](const MeasuredTier& other) { return other.name == tier->name; };
    if (tier->name.empty() || printable(tier->name) != tier->name || !is_sane(tier->link) ||
        std::any_of(tiers.begin(), tier, is_same))
      return false;
  }
  return tiers.size() <= kMostTiers;
}

bool is_sane(const std::vector<MeasuredCodec>& codecs) {
  return codecs.size() <= kMostTunedCodecs &&
         std::all_of(codecs.begin(), codecs.end(), [](const MeasuredCodec& codec) {
           return !codec.choice.is_exact() && positive(codec.encode_GBps) &&
                  positive(codec.decode_GBps);
         });
}

bool is_sane(const std::optional<MeasuredSums>& sums) {
  return !sums || (positive(sums->GBps) && positive(sums->far_GBps));
}

}  // namespace

SharedTuning shared(const TuningFile& file) {
  SharedTuning tuning{.table = file.table(),
                      .measured = file.measured(),
                      .tuned_on = file.tuned_on,
                      .links = file.links,
                      .codec_times = file.codec_times,
                      .ring = file.ring};
  tuning.tuned_on.cpu.clear();
  for (std::optional<Measured>& each : tuning.measured)
    if (each && find_algorithm(each->runner_up) < 0) each->runner_up.clear();
  return tuning;
}

Bytes pack(const SharedTuning& tuning) {
  Writer writer;
  writer.put_text(tuning.table);
  for (const int number :
       {tuning.tuned_on.cores, tuning.tuned_on.ranks, tuning.tuned_on.hosts, tuning.tuned_on.ppn})
    writer.put(static_cast<int32_t>(number));
  writer.put_text(tuning.tuned_on.transports);
  put_link(writer, tuning.links.within);
  put_link(writer, tuning.links.between);
  put_tiers(writer, tuning.links.beyond);
  writer.put(static_cast<uint8_t>(tuning.links.sums.has_value()));
  if (tuning.links.sums) {
    put_number(writer, tuning.links.sums->GBps);
    put_number(writer, tuning.links.sums->far_GBps);
  }
  put_codecs(writer, tuning.links.codecs);
  writer.put(static_cast<uint32_t>(tuning.ring.size()));
  for (const std::string& name : tuning.ring) writer.put_text(name);
  return writer.take();
}

Result<SharedTuning> unpack_tuning(std::span<const std::byte> packed) {
  Reader reader(packed);
  SharedTuning tuning;
  tuning.table = reader.get_text(kMostTableText);
  for (int* number : {&tuning.tuned_on.cores, &tuning.tuned_on.ranks, &tuning.tuned_on.hosts,
                      &tuning.tuned_on.ppn})
    *number = reader.get<int32_t>();
  tuning.tuned_on.transports = printable(reader.get_text(kMostTransports));
  tuning.links.within = get_link(reader);
  tuning.links.between = get_link(reader);
  tuning.links.beyond = get_tiers(reader);
  if (reader.get<uint8_t>() != 0) {
    MeasuredSums& sums = tuning.links.sums.emplace();
    sums.GBps = get_number(reader);
    sums.far_GBps = get_number(reader);
  }
  tuning.links.codecs = get_codecs(reader);
  const auto hosts = reader.get<uint32_t>();
  size_t letters = 0;
  bool names = hosts <= kMostRingHosts;
  for (uint32_t host = 0; names && host < hosts && !reader.bad(); ++host) {
    tuning.ring.push_back(printable(reader.get_text(kMostRingText)));
    letters += tuning.ring.back().size();
    names = !tuning.ring.back().empty() && letters <= kMostRingText;
  }
  if (!names || !reader.at_end() || !is_sane(tuning.links.within) ||
      !is_sane(tuning.links.between) || !is_sane(tuning.links.beyond) ||
      !is_sane(tuning.links.sums) || !is_sane(tuning.links.codecs))
    return Status(Code::kCorrupt, "a tuning that cannot be read");
  return tuning;
}

Bytes pack_times(const MeasuredTimes& times) {
  Writer writer;
  writer.put(static_cast<uint32_t>(times.size()));
  for (const std::optional<Measured>& each : times) {
    writer.put(static_cast<uint8_t>(each.has_value()));
    if (!each) continue;
    writer.put(each->bytes);
    writer.put(each->runs);
    put_number(writer, each->us);
    put_number(writer, each->runner_up_us);
    writer.put_text(each->runner_up);
  }
  return writer.take();
}

Result<MeasuredTimes> unpack_times(std::span<const std::byte> packed) {
  Reader reader(packed);
  const auto count = reader.get<uint32_t>();
  MeasuredTimes times;
  bool sane = count <= kMostTuningRules;
  for (uint32_t i = 0; sane && i < count && !reader.bad(); ++i) {
    std::optional<Measured>& each = times.emplace_back();
    if (reader.get<uint8_t>() == 0) continue;
    each = Measured{.bytes = reader.get<uint64_t>(), .runs = reader.get<uint64_t>()};
    each->us = get_number(reader);
    each->runner_up_us = get_number(reader);
    each->runner_up = reader.get_text(kMostRunnerUp);
    sane = std::isfinite(each->us) && each->us >= 0 && std::isfinite(each->runner_up_us) &&
           each->runner_up_us >= 0 &&
           (each->runner_up.empty() || find_algorithm(each->runner_up) >= 0);
  }
  if (!sane || !reader.at_end()) return Status(Code::kCorrupt, "times that cannot be read");
  return times;
}

Bytes pack_codec_times(const std::vector<CodecTime>& times) {
  Writer writer;
  writer.put(static_cast<uint32_t>(times.size()));
  for (const CodecTime& time : times) {
    writer.put_text(time.choice.is_exact() ? "off" : text_of(time.choice));
    writer.put(time.bytes);
    put_number(writer, time.us);
  }
  return writer.take();
}

Result<std::vector<CodecTime>> unpack_codec_times(std::span<const std::byte> packed) {
  Reader reader(packed);
  const auto count = reader.get<uint32_t>();
  std::vector<CodecTime> times;
  bool sane = count <= kMostCodecTimes;
  for (uint32_t i = 0; sane && i < count && !reader.bad(); ++i) {
    const Result<CodecChoice> choice = parse_codec(reader.get_text(kMostCodecName));
    CodecTime& time = times.emplace_back();
    time.bytes = reader.get<uint64_t>();
    time.us = get_number(reader);
    sane = choice.ok() && time.bytes != 0 && positive(time.us);
    if (sane) time.choice = *choice;
  }
  if (!sane || !reader.at_end())
    return Status(Code::kCorrupt, "times of codecs that cannot be read");
  return times;
}

}  // namespace banyan
