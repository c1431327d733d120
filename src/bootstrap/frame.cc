// Frames are encoded and parsed here. Every parser takes any bytes and gives a checked value or an
// error.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/failure_code.h"
#include "src/base/most_ranks.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr size_t kVerdictTextMost = 2048;

Status corrupt(std::string_view what) {
  return {Code::kCorrupt, fmt::format("malformed {}", what)};
}

bool known(uint16_t type) {
  return type >= static_cast<uint16_t>(FrameType::kHello) &&
         type <= static_cast<uint16_t>(FrameType::kGiveUp);
}

// The failures that a meeting can end with: it knows nothing of GPUs, nor of accuracy.
bool is_verdict(uint32_t code) {
  const auto which = static_cast<Code>(code);
  return is_failure_code(code) && which != Code::kCuda && which != Code::kAccuracy;
}

}  // namespace

Bytes encode_header(const FrameHeader& header) {
  Writer writer;
  writer.put(kFrameMagic);
  writer.put(kFrameVersion);
  writer.put(header.type);
  writer.put(header.length);
  writer.put(header.epoch);
  writer.put(header.sequence);
  writer.put(header.rank);
  return writer.take();
}

Result<FrameHeader> parse_header(std::span<const std::byte> bytes, size_t payload_most) {
  if (bytes.size() != kHeaderSize) return corrupt("frame header");
  Reader reader(bytes);
  if (reader.get<uint32_t>() != kFrameMagic) return corrupt("frame header");
  const auto version = reader.get<uint16_t>();
  if (version != kFrameVersion) {
    return Status(Code::kUnsupported,
                  fmt::format("the other side speaks version {} of the protocol, this one {}; all "
                              "ranks need the same version of the library",
                              version, kFrameVersion));
  }
  FrameHeader header;
  const auto type = reader.get<uint16_t>();
  header.length = reader.get<uint32_t>();
  header.epoch = reader.get<uint32_t>();
  header.sequence = reader.get<uint32_t>();
  header.rank = reader.get<int32_t>();
  if (!known(type) || header.length > payload_most || header.rank < -1 ||
      header.rank >= kMostRanks) {
    return corrupt("frame header");
  }
  header.type = static_cast<FrameType>(type);
  return header;
}

Mac Frame::mac() const {
  Mac mac{};
  const auto tail = std::span(bytes).last(kMacSize);
  std::copy(tail.begin(), tail.end(), mac.begin());
  return mac;
}

Bytes encode_joiner(const Joiner& joiner) {
  Writer writer;
  writer.put(static_cast<uint32_t>(joiner.rank));
  writer.put(static_cast<uint32_t>(joiner.size));
  writer.put(joiner.remaining_ms);
  writer.put(joiner.pid);
  writer.put(joiner.call);
  writer.put(joiner.waited_ms);
  return writer.take();
}

Result<Joiner> parse_joiner(std::span<const std::byte> payload) {
  Reader reader(payload);
  const auto rank = reader.get<uint32_t>();
  const auto size = reader.get<uint32_t>();
  Joiner joiner;
  joiner.remaining_ms = reader.get<uint64_t>();
  joiner.pid = reader.get<uint32_t>();
  joiner.call = reader.get<uint32_t>();
  joiner.waited_ms = reader.get<uint64_t>();
  if (!reader.at_end() || size < 1 || size > kMostRanks || rank >= size) return corrupt("response");
  joiner.rank = static_cast<int>(rank);
  joiner.size = static_cast<int>(size);
  return joiner;
}

Result<Nonce> parse_nonce(std::span<const std::byte> payload) {
  Nonce nonce{};
  if (payload.size() != nonce.size()) return corrupt("nonce");
  std::copy(payload.begin(), payload.end(), nonce.begin());
  return nonce;
}

Bytes encode_verdict(const Status& status) {
  Writer writer;
  const auto code = static_cast<uint32_t>(status.code());
  writer.put(is_verdict(code) ? code : static_cast<uint32_t>(Code::kInternal));
  writer.put_text(status.message().substr(0, kVerdictTextMost));
  return writer.take();
}

Result<RendezvousVerdict> parse_verdict(std::span<const std::byte> payload) {
  Reader reader(payload);
  const auto code = reader.get<uint32_t>();
  const std::string text = reader.get_text(kVerdictTextMost);
  if (!reader.at_end() || !is_verdict(code)) return corrupt("verdict");
  return RendezvousVerdict{Status(static_cast<Code>(code), printable(text))};
}

Bytes encode_result(std::span<const Bytes> contributions) {
  Writer writer;
  for (const Bytes& contribution : contributions) writer.put_bytes(contribution);
  return writer.take();
}

Result<std::vector<Bytes>> parse_result(std::span<const std::byte> bytes, int size) {
  Reader reader(bytes);
  std::vector<Bytes> contributions;
  for (int rank = 0; rank < size && !reader.bad(); ++rank) {
    const auto contribution = reader.get_bytes(kExchangeMost);
    contributions.emplace_back(contribution.begin(), contribution.end());
  }
  if (!reader.at_end()) return corrupt("result of an exchange");
  return contributions;
}

}  // namespace banyan
