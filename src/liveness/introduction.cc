// Introductions and whereabouts are encoded here, and parsed from any bytes.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/introduction.h"

#include <algorithm>

namespace banyan {
namespace {

constexpr size_t kNameMost = 255;
constexpr size_t kInterfaceMost = 15;  // IFNAMSIZ without its end

Status corrupt(const char* what) {
  return {Code::kCorrupt, std::string("malformed ") + what};
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

template <size_t kSize>
std::array<uint8_t, kSize> get_numbers(Reader& reader) {
  std::array<uint8_t, kSize> numbers{};
  const auto bytes = reader.get_raw(kSize);
  std::transform(bytes.begin(), bytes.end(), numbers.begin(),
                 [](std::byte byte) { return static_cast<uint8_t>(byte); });
  return numbers;
}

void put_addresses(Writer& writer, const HostAddresses& addresses) {
  writer.put_raw(std::as_bytes(std::span(addresses.network)));
  writer.put(static_cast<uint8_t>(addresses.chosen ? 1 : 0));
  writer.put(addresses.usable);
  const size_t count = std::min(addresses.all.size(), kHostAddressesMost);
  writer.put(static_cast<uint8_t>(count));
  for (const HostAddress& one : std::span(addresses.all).first(count)) {
    std::string interface = one.interface.substr(0, kInterfaceMost);
    std::replace_if(
        interface.begin(), interface.end(), [](char c) { return c <= 0x20 || c >= 0x7f; }, '?');
    writer.put_text(interface);
    writer.put(static_cast<uint8_t>(one.address.v6 ? 6 : 4));
    writer.put_raw(std::as_bytes(std::span(one.address.ip)));
  }
}

// False: malformed.
bool get_addresses(Reader& reader, HostAddresses& addresses) {
  addresses.network = get_numbers<32>(reader);
  const auto chosen = reader.get<uint8_t>();
  addresses.chosen = chosen == 1;
  addresses.usable = reader.get<uint8_t>();
  const auto count = reader.get<uint8_t>();
  if (chosen > 1 || count > kHostAddressesMost || addresses.usable > count) return false;
  for (uint8_t i = 0; i < count; ++i) {
    HostAddress one;
    one.interface = reader.get_text(kInterfaceMost);
    const auto family = reader.get<uint8_t>();
    one.address.v6 = family == 6;
    one.address.ip = get_numbers<16>(reader);
    if ((family != 4 && family != 6) || !is_plain(one.interface)) return false;
    addresses.all.push_back(std::move(one));
  }
  return true;
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
  put_addresses(writer, introduction.addresses);
  return writer.take();
}

Result<Introduction> parse_introduction(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Introduction introduction;
  const auto nonce = reader.get_raw(introduction.nonce.size());
  std::copy(nonce.begin(), nonce.end(), introduction.nonce.begin());
  introduction.host_digest = get_numbers<32>(reader);
  introduction.host_name = reader.get_text(kNameMost);
  introduction.process.pid = reader.get<uint64_t>();
  introduction.process.started = reader.get<uint64_t>();
  introduction.process.pid_namespace = reader.get<uint64_t>();
  introduction.addresses.host = introduction.host_name;
  if (!get_addresses(reader, introduction.addresses) || !reader.at_end() ||
      introduction.process.pid > INT32_MAX || !is_plain(introduction.host_name)) {
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
    address.ip = get_numbers<16>(reader);
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
