// banyan.h, encode.h: codecs by themselves.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "compression/codecs.h"
#include "compression/grammar.h"
#include "compression/message.h"
#include "src/base/float_mode.h"
#include "src/c_api/arguments.h"
#include "src/c_api/handles.h"
#include "src/c_api/structs.h"
#include "src/cuda/device_memory.h"
#include "src/cuda/host_twin.h"

using banyan::Code;
using banyan::CodecChoice;
using banyan::DataType;
using banyan::door;
using banyan::HostTwin;
using banyan::Result;
using banyan::Status;

namespace {

Status invalid(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

struct Argument {
  std::string_view name;
  const void* given;
  bool is_used = true;
};

// Memory that the call reads or writes.
Status check_memory(std::initializer_list<Argument> arguments) {
  for (const auto& [name, given, is_used] : arguments)
    if (is_used && given == nullptr) return invalid(fmt::format("{} is NULL", name));
  banyan::look_for_cuda_driver();
  for (const auto& [name, given, is_used] : arguments)
    if (is_used) BANYAN_TRY(banyan::must_be_staged(name, given).status());
  return {};
}

Status check_count(uint64_t count, DataType type) {
  constexpr uint64_t kMostBytes = std::numeric_limits<ptrdiff_t>::max();
  // A residual has float32, whatever the type.
  if (count <= kMostBytes / std::max(banyan::size_of(type), sizeof(float))) return {};
  return invalid(fmt::format("count {} of {} is more than memory can hold", count, name_of(type)));
}

Result<CodecChoice> check_codec(const char* codec, DataType type) {
  if (codec == nullptr) return invalid("codec is NULL; it is a name such as \"int8\"");
  Result<CodecChoice> choice = banyan::parse_codec(codec);
  if (!choice.ok()) return invalid(fmt::format("codec: {}", choice.status().message()));
  if (choice->is_exact())
    return invalid(fmt::format("codec: '{}' makes no message; valid: any other name", codec));
  if (!banyan::encodes(choice->codec, type))
    return invalid(
        fmt::format("datatype is {}, which {} does not encode; valid: float32, float16, "
                    "bfloat16, and float64 for threshold, topk and randk",
                    name_of(type), codec));
  return choice;
}

Status bound(const char* codec, size_t count, int datatype, size_t* bytes) {
  const Result<DataType> type = banyan::check_type(datatype);
  BANYAN_TRY(type.status());
  BANYAN_TRY(check_count(count, *type));
  const Result<CodecChoice> choice = check_codec(codec, *type);
  BANYAN_TRY(choice.status());
  if (bytes == nullptr) return invalid("bytes is NULL");
  const banyan::DefaultFloatMode mode;  // a share of the values is rounded
  *bytes = banyan::message_bound(*choice, *type, count);
  return {};
}

Status encode(banyan_encode_t* how, const void* source, size_t count, int datatype, void* message,
              size_t* bytes) {
  if (how == nullptr) return invalid("how is NULL");
  const banyan_encode_t defaults = BANYAN_ENCODE_INIT;
  const Result<banyan_encode_t> given = banyan::complete_struct(how, defaults, "how");
  BANYAN_TRY(given.status());
  const Result<DataType> type = banyan::check_type(datatype);
  BANYAN_TRY(type.status());
  BANYAN_TRY(check_count(count, *type));
  const Result<CodecChoice> choice = check_codec(given->codec, *type);
  BANYAN_TRY(choice.status());
  if (bytes == nullptr) return invalid("bytes is NULL");
  BANYAN_TRY(check_memory({{"source", source, count != 0},
                           {"message", message},
                           {"residual", given->residual, given->residual != nullptr}}));
  const banyan::DefaultFloatMode mode;
  // The caller may have more room than any message takes.
  const size_t most = std::min<size_t>(*bytes, banyan::message_bound(*choice, *type, count));
  HostTwin values(source, count * banyan::size_of(*type));
  const size_t residual_bytes = given->residual == nullptr ? 0 : count * sizeof(float);
  HostTwin residual(given->residual, residual_bytes);
  HostTwin written(message, most);
  for (HostTwin* read : {&values, &residual}) BANYAN_TRY(read->bring());

  const banyan::EncodedMessage made =
      banyan::encode_message(*choice,
                             {.type = *type,
                              .values = values.data(),
                              .count = count,
                              .seed = given->seed,
                              .step = given->step},
                             residual.data(), {written.data(), most});
  const size_t room = std::exchange(*bytes, made.size);
  if (made.size > room)
    return invalid(fmt::format("bytes is {}, and the message takes {}", room, made.size));
  BANYAN_TRY(written.take_back(made.size));
  BANYAN_TRY(residual.take_back(residual_bytes));
  // A struct of an older header may end before these.
  banyan_encode_t result = *given;
  result.size = how->size;
  result.nonfinite = made.nonfinite;
  result.kept = made.kept;
  std::memcpy(how, &result, std::min(how->size, sizeof result));
  return {};
}

// Into target, or added to what it holds.
Status decode(bool adds, const void* message, size_t bytes, void* target, size_t count,
              int datatype) {
  const Result<DataType> type = banyan::check_type(datatype);
  BANYAN_TRY(type.status());
  if (!banyan::is_floating(*type) || banyan::size_of(*type) == 1)
    return invalid(
        fmt::format("datatype is {}; valid: float32, float16, bfloat16, float64", name_of(*type)));
  BANYAN_TRY(check_count(count, *type));
  BANYAN_TRY(check_memory({{"message", message}, {"target", target, count != 0}}));
  const size_t target_bytes = count * banyan::size_of(*type);
  HostTwin read(message, bytes);
  HostTwin values(target, target_bytes);
  BANYAN_TRY(read.bring());
  if (adds) BANYAN_TRY(values.bring());
  const banyan::DefaultFloatMode mode;
  const auto function = adds ? banyan::decode_add_message : banyan::decode_message;
  BANYAN_TRY(function({read.data(), bytes}, *type, count, values.data()));
  return values.take_back(target_bytes);
}

}  // namespace

banyan_result_t banyan_encode_bound(const char* codec, size_t count, banyan_datatype_t datatype,
                                    size_t* bytes) {
  return door([&] { return bound(codec, count, banyan::number_in(datatype), bytes); });
}

banyan_result_t banyan_encode(banyan_encode_t* how, const void* source, size_t count,
                              banyan_datatype_t datatype, void* message, size_t* bytes) {
  return door(
      [&] { return encode(how, source, count, banyan::number_in(datatype), message, bytes); });
}

banyan_result_t banyan_decode(const void* message, size_t bytes, void* target, size_t count,
                              banyan_datatype_t datatype) {
  return door(
      [&] { return decode(false, message, bytes, target, count, banyan::number_in(datatype)); });
}

banyan_result_t banyan_decode_add(const void* message, size_t bytes, void* target, size_t count,
                                  banyan_datatype_t datatype) {
  return door(
      [&] { return decode(true, message, bytes, target, count, banyan::number_in(datatype)); });
}
