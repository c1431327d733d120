// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/registration.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>

#include "algorithms/choice/compression.h"
#include "compression/crc32c.h"
#include "src/base/parse.h"
#include "src/c_api/arguments.h"
#include "src/c_api/communicator.h"
#include "src/c_api/run.h"
#include "src/c_api/structs.h"
#include "src/reducer/rules.h"

namespace banyan {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 48;
// Buckets that are long enough for a wire to be busy, and short enough for it to be so early.
constexpr uint64_t kBucketOnOneHost = uint64_t{1} << 20;
constexpr uint64_t kBucketBetweenHosts = uint64_t{2} << 20;

template <typename... Args>
Status refused(fmt::format_string<Args...> text, Args&&... args) {
  return {Code::kInvalidArgument, fmt::format(text, std::forward<Args>(args)...)};
}

Result<ReducerOptions> options_of(const banyan_reducer_config_t& config, bool one_host) {
  if (config.op != BANYAN_AVG && config.op != BANYAN_SUM)
    return refused("config.op is {}; valid: 0 (sum) and 4 (avg)", config.op);
  if (config.error_feedback != 0 && config.error_feedback != 1)
    return refused("config.error_feedback is {}; valid: 0 and 1", config.error_feedback);
  if (!(config.momentum >= 0 && config.momentum < 1))
    return refused("config.momentum is {}; valid: 0 or more, and below 1", config.momentum);
  if (!(config.clip_norm >= 0 && std::isfinite(config.clip_norm)))
    return refused("config.clip_norm is {}; valid: 0 or a finite number above it",
                   config.clip_norm);
  const uint64_t chosen = one_host ? kBucketOnOneHost : kBucketBetweenHosts;
  return ReducerOptions{.op = static_cast<ReduceOp>(config.op),
                        .feedback = config.error_feedback == 1,
                        .momentum = config.momentum,
                        .clip_norm = config.clip_norm,
                        .warmup_steps = config.warmup_steps,
                        .bucket_bytes = config.bucket_bytes != 0 ? config.bucket_bytes : chosen};
}

// Structs lie one behind the other, each as long as the caller's version has it.
Result<banyan_tensor_t> tensor_at(const banyan_tensor_t* tensors, size_t index) {
  const auto* first = reinterpret_cast<const std::byte*>(tensors);
  const auto* given = reinterpret_cast<const banyan_tensor_t*>(first + index * tensors->size);
  const std::string name = fmt::format("tensors[{}]", index);
  if (given->size != tensors->size)
    return refused("{}.size is {}, and that of the first is {}", name, given->size, tensors->size);
  return complete_struct(given, banyan_tensor_t{}, name);
}

Result<Tensor> check_tensor(const banyan_tensor_t& given, size_t index) {
  if (given.id == BANYAN_ALL_TENSORS)
    return refused("tensors[{}].id is BANYAN_ALL_TENSORS, which stands for all of them", index);
  const Result<DataType> type = check_type(number_in(given.datatype));
  BANYAN_TRY(type.status());
  if (*type != DataType::kFloat32 && *type != DataType::kFloat16 && *type != DataType::kBfloat16 &&
      *type != DataType::kFloat64)
    return refused("tensors[{}].datatype is {}; valid: float32, float16, bfloat16, float64", index,
                   name_of(*type));
  if (given.count > kMostElements)
    return refused("tensors[{}].count is {}; valid: up to 2^48", index, given.count);
  if (given.dimensions < 0)
    return refused("tensors[{}].dimensions is {}; valid: 0 or more", index, given.dimensions);
  return Tensor{.id = given.id,
                .name = given.name != nullptr ? given.name : std::to_string(given.id),
                .count = given.count,
                .dimensions = given.dimensions,
                .type = *type};
}

// What ranks must agree on, a line for the settings and one for each tensor.
std::vector<std::string> lines_of(const Registration& registration) {
  const ReducerOptions& options = registration.options;
  std::vector<std::string> lines{fmt::format(
      "{}, buckets of {} bytes, feedback {}, momentum {}, clip norm {}, {} steps of warm-up, rules "
      "'{}'",
      name_of(options.op), options.bucket_bytes, options.feedback ? "on" : "off", options.momentum,
      options.clip_norm, options.warmup_steps, printable(registration.rules))};
  for (const Tensor& tensor : registration.tensors)
    lines.push_back(fmt::format(
        "tensor {} ('{}') of {} {}, {} dimensions, {} from {} bytes on, "
        "seed {}",
        tensor.id, printable(tensor.name), tensor.count, name_of(tensor.type), tensor.dimensions,
        text_of(tensor.compression), tensor.compression.least_bytes, tensor.compression.seed));
  return lines;
}

std::vector<uint32_t> sums_of(std::span<const std::string> lines) {
  std::vector<uint32_t> sums;
  for (const std::string& line : lines) sums.push_back(crc32c(std::as_bytes(std::span(line))));
  return sums;
}

// Says what differs on the first rank that differs from rank 0, by the check sums of all lines;
// nothing where none does. A rank has `stride` of them, of which those behind its last are 0.
std::string difference(std::span<const uint32_t> sums, size_t stride,
                       std::span<const std::string> lines) {
  const size_t ranks = sums.size() / stride;
  for (size_t rank = 1; rank < ranks; ++rank) {
    const auto theirs = sums.subspan(rank * stride, stride);
    const auto at = static_cast<size_t>(
        std::mismatch(theirs.begin(), theirs.end(), sums.begin()).first - theirs.begin());
    if (at == stride) continue;
    const std::string mine = at < lines.size() ? lines[at] : "none";
    return fmt::format("rank {} and rank 0 registered other {}; here it is: {}", rank,
                       at == 0 ? "settings" : fmt::format("tensors, the first as number {}", at),
                       mine);
  }
  return "";
}

}  // namespace

Result<Registration> check_registration(const OpenCommunicator& communicator,
                                        const banyan_tensor_t* tensors, size_t tensor_count,
                                        const banyan_reducer_config_t* given) {
  const banyan_reducer_config_t defaults = BANYAN_REDUCER_CONFIG_INIT;
  const Result<banyan_reducer_config_t> config = complete_struct(given, defaults, "config");
  BANYAN_TRY(config.status());
  if (tensors == nullptr) return refused("tensors is NULL");
  if (tensor_count == 0) return refused("tensor_count is 0; valid: 1 or more");
  const Membership& membership = *communicator.membership;
  const Result<ReducerOptions> options = options_of(*config, membership.one_host());
  BANYAN_TRY(options.status());
  Registration registration{
      .tensors = {}, .options = *options, .rules = config->rules != nullptr ? config->rules : ""};
  const auto rules = parse_tensor_rules(registration.rules);
  BANYAN_TRY(rules.status());
  std::unordered_set<uint64_t> ids;
  for (size_t index = 0; index < tensor_count; ++index) {
    const Result<banyan_tensor_t> whole = tensor_at(tensors, index);
    BANYAN_TRY(whole.status());
    Result<Tensor> tensor = check_tensor(*whole, index);
    BANYAN_TRY(tensor.status());
    if (!ids.insert(tensor->id).second)
      return refused("tensors[{}].id is {}, which another tensor has, too", index, tensor->id);
    std::optional<Compression> own;
    if (whole->compression != nullptr) {
      const Result<Compression> read = read_compression(whole->compression);
      BANYAN_TRY(read.status());
      own = *read;
    }
    const Result<Compression> compression =
        compression_of(*tensor, own, *rules, membership.settings());
    BANYAN_TRY(compression.status());
    tensor->compression = *compression;
    registration.tensors.push_back(std::move(*tensor));
  }
  return registration;
}

Status agree_on(OpenCommunicator& communicator, const Registration& registration) {
  const std::vector<std::string> lines = lines_of(registration);
  std::vector<uint32_t> sums = sums_of(lines);
  const auto ranks = static_cast<size_t>(communicator.membership->size());
  const uint64_t count = sums.size();
  std::vector<uint64_t> counts(ranks);
  BANYAN_TRY(
      run_internal(communicator, Collective::kAllgather, &count, counts.data(), sizeof count));
  const size_t stride = *std::max_element(counts.begin(), counts.end());
  sums.resize(stride);
  std::vector<uint32_t> all(ranks * stride);
  BANYAN_TRY(run_internal(communicator, Collective::kAllgather, sums.data(), all.data(),
                          stride * sizeof(uint32_t)));
  const std::string text = difference(all, stride, lines);
  if (text.empty()) return {};
  communicator.membership->adopt({Code::kMismatch, -1, "banyan_reducer_create: " + text});
  return {Code::kMismatch, "banyan_reducer_create: " + text};
}

}  // namespace banyan
