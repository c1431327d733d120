// SPDX-License-Identifier: Apache-2.0

#include "algorithms/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "compression/grammar.h"
#include "src/base/parse.h"
#include "src/base/same_word.h"

namespace banyan {
namespace {

// By Phase; the first is nobody's word.
constexpr std::array<std::string_view, kPhaseCount> kPhases = {"",         "circulant", "ring",
                                                               "pairwise", "direct",    "nccl"};

Status right(std::string_view what) {
  return {Code::kInvalidArgument, std::string(what)};
}

Result<uint32_t> parse_segment(std::string_view value) {
  const Result<uint64_t> size = parse_size(value);
  if (size.ok() && *size >= 1 && *size <= kMostSegment) return static_cast<uint32_t>(*size);
  return right(
      fmt::format("seg=SIZE, bytes from 1 to {}, with K, M or G", format_size(kMostSegment)));
}

Result<Phase> parse_phase(std::string_view value, ParameterKey key) {
  for (size_t i = 1; i < kPhases.size(); ++i) {
    const bool fits = key == ParameterKey::kIntra || static_cast<Phase>(i) != Phase::kNccl;
    if (fits && same_word(kPhases[i], value)) return static_cast<Phase>(i);
  }
  return right(form_of(key));
}

using Dimensions = decltype(Parameters::dimensions);

Result<Dimensions> parse_dimensions(std::string_view value) {
  Dimensions dimensions{};
  const std::vector<std::string_view> words = split(value, 'x');
  bool all_right = words.size() <= dimensions.size();
  for (size_t i = 0; all_right && i < words.size(); ++i) {
    const Result<int64_t> length = parse_integer(words[i], 2, kMostDimension);
    all_right = length.ok();
    if (length.ok()) dimensions[i] = static_cast<uint16_t>(*length);
  }
  if (all_right) return dimensions;
  return right(
      fmt::format("dims=AxBxC, one to {} numbers from 2 to {}", kMostDimensions, kMostDimension));
}

Result<uint16_t> parse_rails(std::string_view value) {
  if (same_word(value, "auto")) return uint16_t{0};
  const Result<int64_t> count = parse_integer(value, 1, kMostRails);
  if (count.ok()) return static_cast<uint16_t>(*count);
  return right(fmt::format("rails=N, ranks of a host from 1 to {}, or auto: all", kMostRails));
}

}  // namespace

std::string_view form_of(ParameterKey key) {
  switch (key) {
    case ParameterKey::kSegment: return "seg=SIZE";
    case ParameterKey::kIntra: return "intra=circulant|ring|pairwise|direct|nccl";
    case ParameterKey::kInter: return "inter=circulant|ring|pairwise|direct";
    case ParameterKey::kRails: return "rails=N|auto";
    case ParameterKey::kDimensions: return "dims=AxBxC";
  }
  return {};
}

std::string_view name_of(ParameterKey key) {
  const std::string_view form = form_of(key);
  return form.substr(0, form.find('='));
}

Result<Parameters> with_parameter(Parameters parameters, ParameterKey key, std::string_view value) {
  switch (key) {
    case ParameterKey::kSegment: {
      const Result<uint32_t> segment = parse_segment(value);
      BANYAN_TRY(segment.status());
      parameters.segment = *segment;
      break;
    }
    case ParameterKey::kIntra:
    case ParameterKey::kInter: {
      const Result<Phase> phase = parse_phase(value, key);
      BANYAN_TRY(phase.status());
      (key == ParameterKey::kIntra ? parameters.intra : parameters.inter) = *phase;
      break;
    }
    case ParameterKey::kRails: {
      const Result<uint16_t> rails = parse_rails(value);
      BANYAN_TRY(rails.status());
      parameters.rails = *rails;
      break;
    }
    case ParameterKey::kDimensions: {
      const Result<Dimensions> dimensions = parse_dimensions(value);
      BANYAN_TRY(dimensions.status());
      parameters.dimensions = *dimensions;
      break;
    }
  }
  return parameters;
}

std::string text_of(const Parameters& parameters) {
  std::vector<std::string> words;
  if (parameters.segment != 0)
    words.push_back(fmt::format("seg={}", format_size(parameters.segment)));
  if (parameters.intra != Phase::kOwn)
    words.push_back(fmt::format("intra={}", kPhases[static_cast<size_t>(parameters.intra)]));
  if (parameters.inter != Phase::kOwn)
    words.push_back(fmt::format("inter={}", kPhases[static_cast<size_t>(parameters.inter)]));
  if (parameters.rails != 0) words.push_back(fmt::format("rails={}", parameters.rails));
  std::string dimensions;
  for (const uint16_t length : parameters.dimensions)
    if (length != 0) dimensions += fmt::format("{}{}", dimensions.empty() ? "dims=" : "x", length);
  if (!dimensions.empty()) words.push_back(std::move(dimensions));
  if (!parameters.inter_codec.is_exact())
    words.push_back(fmt::format("codec={}", text_of(parameters.inter_codec)));
  if (!parameters.intra_codec.is_exact())
    words.push_back(fmt::format("intra_codec={}", text_of(parameters.intra_codec)));
  return fmt::format("{}", fmt::join(words, ","));
}

bool fit_ranks(const Parameters& parameters, int ranks) {
  if (parameters.dimensions.front() == 0) return true;
  uint64_t places = 1;
  for (const uint16_t length : parameters.dimensions)
    if (length != 0 && places <= static_cast<uint64_t>(ranks)) places *= length;
  return places == static_cast<uint64_t>(ranks);
}

}  // namespace banyan
