// Unique ids, and the thread that serves a rendezvous.
// SPDX-License-Identifier: Apache-2.0

#include "src/rendezvous.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

#include "src/base/bytes.h"
#include "src/rendezvous_server.h"
#include "src/rendezvous_socket.h"

namespace banyan {
namespace {

constexpr uint64_t kIdMagic = 0x64696e61796e6142;  // "Banyanid"
constexpr uint32_t kIdVersion = 1;
constexpr size_t kIdChecked = 96;  // bytes before the check sum; zeros to there

// Not against forgery: against bytes that are no id.
Mac check_sum(std::span<const std::byte> bytes) {
  return authenticate(Key{}, "banyan unique id", bytes);
}

void* serve(void* argument) {
  const std::unique_ptr<RendezvousServer> server(static_cast<RendezvousServer*>(argument));
  server->run();
  return nullptr;
}

// With all signals blocked: they are for the program's own threads.
int start_detached(void* (*body)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, body, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return error;
  (void)pthread_setname_np(thread, "banyan-meet");
  (void)pthread_detach(thread);
  return 0;
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
  auto server =
      RendezvousServer::create(std::move(listener->socket), options.key, options.deadline, log);
  if (!server.ok()) return server.status();
  RendezvousServer* owned_by_thread = server->release();
  const int error = start_detached(serve, owned_by_thread);
  if (error != 0) {
    delete owned_by_thread;
    return Status(Code::kSystem, fmt::format("cannot start the thread of a rendezvous: {}",
                                             std::generic_category().message(error)));
  }
  BANYAN_LOG(log, Subsystem::kInit, LogLevel::kInfo, "ranks can meet at {}", address.text());
  return address;
}

}  // namespace banyan
