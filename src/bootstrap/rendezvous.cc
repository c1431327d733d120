// Unique ids, and the thread that serves a rendezvous.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/rendezvous.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "src/base/bytes.h"
#include "src/base/thread.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/rendezvous_socket.h"

namespace banyan {
namespace {

constexpr uint64_t kIdMagic = 0x64696e61796e6142;  // "Banyanid"
constexpr uint32_t kIdVersion = 1;
constexpr size_t kIdChecked = 96;  // bytes before the check sum; zeros to there

// Not against forgery: against bytes that are no id.
Mac check_sum(std::span<const std::byte> bytes) {
  return authenticate(Key{}, "banyan unique id", bytes);
}

}  // namespace

std::array<std::byte, 128> UniqueId::pack() const {
  Writer writer;
  writer.put(kIdMagic);
  writer.put(kIdVersion);
  writer.put(static_cast<uint16_t>(address.v6 ? 6 : 4));
  writer.put(address.port);
  writer.put_raw(std::as_bytes(std::span(address.ip)));
  writer.put_raw(key);
  writer.put(token);
  std::array<std::byte, 128> packed{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), packed.begin());
  const Mac sum = check_sum(std::span(packed).first(kIdChecked));
  std::copy(sum.begin(), sum.end(), packed.begin() + kIdChecked);
  return packed;
}

Result<UniqueId> unpack_unique_id(std::span<const std::byte, 128> bytes) {
  Mac sum{};
  std::copy(bytes.begin() + kIdChecked, bytes.end(), sum.begin());
  Reader reader(bytes.first(kIdChecked));
  UniqueId id;
  const bool ours = reader.get<uint64_t>() == kIdMagic && reader.get<uint32_t>() == kIdVersion;
  const auto family = reader.get<uint16_t>();
  id.address.v6 = family == 6;
  id.address.port = reader.get<uint16_t>();
  const auto ip = reader.get_raw(id.address.ip.size());
  std::memcpy(id.address.ip.data(), ip.data(), ip.size());
  const auto key = reader.get_raw(id.key.size());
  std::copy(key.begin(), key.end(), id.key.begin());
  id.token = reader.get<uint64_t>();
  if (!ours || (family != 4 && family != 6) || id.address.port == 0 ||
      !equal(sum, check_sum(bytes.first(kIdChecked)))) {
    return Status(
        Code::kInvalidArgument,
        "the unique id is not one that banyan_get_unique_id of this version made; all 128 "
        "bytes of it must reach every rank unchanged");
  }
  return id;
}

Result<Address> open_rendezvous(const RendezvousOptions& options, const Log& log) {
  auto listener = listen_at(options.address, options.ports);
  if (!listener.ok()) return listener.status();
  const Address address = listener->address;
  std::vector<Descriptor> listeners;
  listeners.push_back(std::move(listener->socket));
  for (Address more : options.also) {
    more.port = address.port;
    auto further = listen_at(more, {});
    if (further.ok()) listeners.push_back(std::move(further->socket));
  }
  auto server = RendezvousServer::create(std::move(listeners), options.key, options.deadline, log);
  if (!server.ok()) return server.status();
  auto thread = start_thread("serves a rendezvous", [owned = std::move(*server)] { owned->run(); });
  if (!thread.ok()) return thread.status();
  (void)pthread_setname_np(thread->native_handle(), "banyan-meet");
  thread->detach();
  BANYAN_LOG(log, Subsystem::kInit, LogLevel::kInfo, "ranks can meet at {}", address.text());
  return address;
}

}  // namespace banyan
