// What ranks tell each other before they link.
// SPDX-License-Identifier: Apache-2.0

#include "src/wire_links.h"

#include <algorithm>

namespace banyan {
namespace {

constexpr size_t kNameMost = 255;

Status corrupt(const char* what) {
  return {Code::kCorrupt, std::string("malformed ") + what};
}

}  // namespace

Bytes encode_introduction(const Introduction& introduction) {
  Writer writer;
  writer.put_raw(introduction.nonce);
  writer.put_raw(std::as_bytes(std::span(introduction.host_digest)));
  writer.put_text(std::string_view(introduction.host_name).substr(0, kNameMost));
  writer.put(introduction.process.pid);
  writer.put(introduction.process.started);
  writer.put(introduction.process.pid_namespace);
  return writer.take();
}

Result<Introduction> parse_introduction(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Introduction introduction;
  const auto nonce = reader.get_raw(introduction.nonce.size());
  std::copy(nonce.begin(), nonce.end(), introduction.nonce.begin());
  const auto digest = reader.get_raw(introduction.host_digest.size());
  std::transform(digest.begin(), digest.end(), introduction.host_digest.begin(),
                 [](std::byte byte) { return static_cast<uint8_t>(byte); });
  introduction.host_name = reader.get_text(kNameMost);
  introduction.process.pid = reader.get<uint64_t>();
  introduction.process.started = reader.get<uint64_t>();
  introduction.process.pid_namespace = reader.get<uint64_t>();
  const auto is_plain = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!reader.at_end() || introduction.process.pid > INT32_MAX ||
      !std::all_of(introduction.host_name.begin(), introduction.host_name.end(), is_plain)) {
    return corrupt("introduction");
  }
  return introduction;
}

Bytes encode_whereabouts(const Whereabouts& whereabouts) {
  Writer writer;
  writer.put(static_cast<uint8_t>(whereabouts.local ? 1 : 0));
  if (whereabouts.local) writer.put_raw(*whereabouts.local);
  writer.put(static_cast<uint8_t>(!whereabouts.remote ? 0 : whereabouts.remote->v6 ? 6 : 4));
  if (whereabouts.remote) {
    writer.put_raw(std::as_bytes(std::span(whereabouts.remote->ip)));
    writer.put(whereabouts.remote->port);
  }
  return writer.take();
}

Result<Whereabouts> parse_whereabouts(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Whereabouts whereabouts;
  const auto has_local = reader.get<uint8_t>();
  if (has_local == 1) {
    const auto name = reader.get_raw(sizeof(LocalName));
    LocalName local{};
    std::copy(name.begin(), name.end(), local.begin());
    whereabouts.local = local;
  }
  const auto family = reader.get<uint8_t>();
  if (family == 4 || family == 6) {
    Address address;
    address.v6 = family == 6;
    const auto ip = reader.get_raw(address.ip.size());
    std::transform(ip.begin(), ip.end(), address.ip.begin(),
                   [](std::byte byte) { return static_cast<uint8_t>(byte); });
    address.port = reader.get<uint16_t>();
    if (address.port == 0) return corrupt("whereabouts");
    whereabouts.remote = address;
  }
  if (!reader.at_end() || has_local > 1 || (family != 0 && family != 4 && family != 6)) {
    return corrupt("whereabouts");
  }
  return whereabouts;
}

}  // namespace banyan
