// The sentence that says how two ranks' calls differ.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/signature.h"

#include <fmt/core.h>

namespace banyan {

namespace {

// Signatures come from peers, so a value may be none of its enum.
std::string text_of(DataType value) {
  const auto number = static_cast<int>(value);
  return number < kDataTypeCount ? std::string(name_of(value)) : fmt::format("{}", number);
}
std::string text_of(ReduceOp value) {
  const auto number = static_cast<int>(value);
  return number < kReduceOpCount ? std::string(name_of(value)) : fmt::format("{}", number);
}
std::string name_of_algorithm(uint32_t number, std::span<const std::string_view> names) {
  if (number == 0) return "the library's choice";
  if (number <= names.size()) return std::string(names[number - 1]);
  return fmt::format("number {}", number);
}
std::string text_of(uint8_t algorithm, std::span<const std::string_view> names) {
  const uint32_t number = algorithm & ~uint32_t{kWithParameters};
  return name_of_algorithm(number, names) + (number != algorithm ? " with parameters" : "");
}
std::string text_of_codec(CodecId codec) {
  return codec == kNoCodec ? "none" : fmt::format("number {}", codec);
}
std::string text_of(MemoryKind value) {
  const auto number = static_cast<int>(value);
  return number < kMemoryKindCount ? std::string(name_of(value)) : fmt::format("{}", number);
}
std::string text_of(uint64_t count) {
  return fmt::format("{}", count);
}
std::string text_of(uint16_t root) {
  return fmt::format("{}", root);
}

}  // namespace

std::string text_of(Collective value) {
  const auto number = static_cast<int>(value);
  return number < kCollectiveCount ? std::string(name_of(value)) : fmt::format("{}", number);
}

std::string describe_difference(const CallSignature& mine, int my_rank, const CallSignature& theirs,
                                int their_rank, uint32_t call_number,
                                std::span<const std::string_view> algorithms) {
  // "allreduce of float32": what the two agree on, in front of the field in question.
  std::string call = text_of(mine.collective);
  const bool first_is_mine = my_rank <= their_rank;
  const CallSignature& a = first_is_mine ? mine : theirs;
  const CallSignature& b = first_is_mine ? theirs : mine;
  const int rank_a = first_is_mine ? my_rank : their_rank;
  const int rank_b = first_is_mine ? their_rank : my_rank;
  // The lower rank comes first, so that both ranks say the same sentence.
  const auto sentence = [&](std::string_view field, const std::string& of_a,
                            const std::string& of_b, const std::string& where) {
    return fmt::format("{} differs: rank {} has {}, rank {} has {} ({}, call {})", field, rank_a,
                       of_a, rank_b, of_b, where, call_number);
  };

  if (a.collective != b.collective)
    return fmt::format("collective differs: rank {} has {}, rank {} has {} (call {})", rank_a,
                       text_of(a.collective), rank_b, text_of(b.collective), call_number);
  if (a.type != b.type) return sentence("datatype", text_of(a.type), text_of(b.type), call);
  if (a.collective != Collective::kBarrier) call += " of " + text_of(a.type);
  const auto algorithm_differs = [&] {
    return sentence("algorithm", text_of(a.algorithm, algorithms), text_of(b.algorithm, algorithms),
                    call);
  };
  const auto codec_differs = [&] {
    return sentence("codec", text_of_codec(a.codec), text_of_codec(b.codec), call);
  };
  const bool with_parameters = ((a.algorithm | b.algorithm) & kWithParameters) != 0;
  if (with_parameters && a.codec != b.codec) return codec_differs();
  if (with_parameters && a.algorithm != b.algorithm) return algorithm_differs();
  if (a.count != b.count) {
    if (with_parameters)
      return fmt::format(
          "count or parameters differ: rank {} and rank {} ask for {} with parameters, not the "
          "same or not for the same count ({}, call {})",
          rank_a, rank_b, name_of_algorithm(a.algorithm & ~uint32_t{kWithParameters}, algorithms),
          call, call_number);
    if (has_blocks_of_own_length(a.collective))
      return fmt::format(
          "counts differ: the lists of rank {} and rank {} are not the same "
          "({}, call {})",
          rank_a, rank_b, call, call_number);
    return sentence("count", text_of(a.count), text_of(b.count), call);
  }
  if (a.op != b.op) return sentence("op", text_of(a.op), text_of(b.op), call);
  if (reduces(a.collective)) call += ", " + text_of(a.op);
  if (a.root != b.root) return sentence("root", text_of(a.root), text_of(b.root), call);
  if (a.algorithm != b.algorithm) return algorithm_differs();
  if (a.codec != b.codec) return codec_differs();
  if (a.memory != b.memory) return sentence("memory", text_of(a.memory), text_of(b.memory), call);
  return fmt::format("nothing differs between rank {} and rank {} ({}, call {})", rank_a, rank_b,
                     call, call_number);
}

}  // namespace banyan
