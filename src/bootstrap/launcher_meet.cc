// Brings the ranks of a launch together.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <thread>

#include "src/base/bytes.h"
#include "src/base/parse.h"
#include "src/base/process.h"
#include "src/bootstrap/host_addresses.h"
#include "src/bootstrap/launcher.h"

namespace banyan {
namespace {

// How long rank 0 waits for its port: the rendezvous before this one may just be closing it.
constexpr auto kPortPatience = std::chrono::seconds(6);
constexpr auto kPortPause = std::chrono::milliseconds(20);
// How long whoever holds it may take to answer, and when it is asked again.
constexpr auto kHolderPatience = std::chrono::milliseconds(300);
constexpr auto kBetweenQuestions = std::chrono::milliseconds(500);
// How many addresses of rank 0 the others may try: what a process manager carries has its bounds.
constexpr size_t kMeetingAddressesMost = 3;
constexpr size_t kHexId = 256;  // of a packed UniqueId

std::unique_ptr<Exchange> alone() {
  return exchange_over(0, 1, [](const void* send, void* recv, size_t bytes) {
    if (bytes > 0) std::memcpy(recv, send, bytes);
    return 0;
  });
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Result<UniqueId> id_of_hex(std::string_view text) {
  std::array<std::byte, 128> bytes{};
  bool good = text.size() == kHexId;
  for (size_t i = 0; good && i < bytes.size(); ++i) {
    uint8_t value = 0;
    const char* begin = text.data() + 2 * i;
    const auto parsed = std::from_chars(begin, begin + 2, value, 16);
    good = parsed.ec == std::errc() && parsed.ptr == begin + 2;
    bytes[i] = std::byte{value};
  }
  if (!good) {
    return Status(Code::kCorrupt, "the process manager did not pass on what rank 0 gave it");
  }
  return unpack_unique_id(bytes);
}

// Reads the same rendezvous at several addresses.
Result<std::vector<UniqueId>> ids_of_hex(std::string_view text) {
  std::vector<UniqueId> ids;
  do {
    const auto id = id_of_hex(text.substr(0, kHexId));
    BANYAN_TRY(id.status());
    ids.push_back(*id);
    text.remove_prefix(kHexId);
  } while (!text.empty() && ids.size() < kMeetingAddressesMost);
  return ids;
}

// Finds where the ranks meet, as this host has it. The first address counts; rank 0 listens at all
// of them. A name that it maps to loopback, as Debian does with a host's own (127.0.1.1), is this
// host: ranks elsewhere need it by an address that they can reach.
Result<std::vector<Address>> meeting_addresses(const Launch& launch, const std::string& text,
                                               const Environment& environment) {
  auto address = resolve(text);
  if (!address.ok()) {
    return Status(address.status().code(),
                  fmt::format("where ranks meet under {}: {}", name_of(launch.kind),
                              address.status().message()));
  }
  // And ranks of one host need nothing that strangers can reach.
  if (launch.one_host && !address->loopback())
    return std::vector<Address>{{.v6 = false, .ip = {127, 0, 0, 1}, .port = address->port}};
  if (launch.one_host || !address->loopback()) return std::vector<Address>{*address};
  auto outside = listening_addresses(environment, false);
  if (!outside.ok()) return std::vector<Address>{*address};
  outside->resize(std::min(outside->size(), kMeetingAddressesMost));
  for (Address& one : *outside) one.port = address->port;
  return outside;
}

// Asks what a rendezvous that holds the port says to another rank 0 of its ranks. Otherwise fine:
// whoever holds it may leave it yet.
Status refused_as_second(const Address& address, JoinOptions options, const Log& log) {
  options.candidates = {address};
  options.deadline = std::min(options.deadline, Clock::now() + kHolderPatience);
  options.asks = true;
  const Status status = join_rendezvous(options, log).status();
  return status.code() == Code::kMismatch ? status : Status();
}

// The first of the addresses that is free.
Result<Address> open_at_one_of(const JoinOptions& options, const std::vector<Address>& also,
                               const Log& log) {
  const TimePoint give_up = std::min(options.deadline, Clock::now() + kPortPatience);
  TimePoint ask;
  while (true) {
    Status last;
    const bool asks = Clock::now() >= ask;
    for (const Address& candidate : options.candidates) {
      auto opened = open_rendezvous({candidate, {}, options.key, options.deadline, also}, log);
      if (opened.ok()) return opened;
      last = opened.status();
      if (last.code() != Code::kBusy) return last;
      if (asks) BANYAN_TRY(refused_as_second(candidate, options, log));
    }
    if (asks) ask = Clock::now() + kBetweenQuestions;
    if (Clock::now() >= give_up) {
      return Status(Code::kSystem, fmt::format("rank 0 {}; choose another port", last.message()));
    }
    std::this_thread::sleep_for(kPortPause);
  }
}

Result<std::unique_ptr<Exchange>> meet_at_addresses(const Launch& launch,
                                                    const Environment& environment, int count,
                                                    TimePoint deadline, const Log& log) {
  JoinOptions options;
  options.rank = launch.rank;
  options.size = launch.size;
  options.deadline = deadline;
  options.key_is_private = launch.secret_is_private;
  // Not of the call's number: one rank may have given up more often than another one.
  options.key = derive_key(key_of_text(launch.secret), "meeting", {});
  options.call = static_cast<uint32_t>(count);
  std::vector<Address> also;
  for (const std::string& text : launch.addresses) {
    const auto addresses = meeting_addresses(launch, text, environment);
    if (!addresses.ok()) return addresses.status();
    options.candidates.push_back(addresses->front());
    also.assign(addresses->begin() + 1, addresses->end());
  }
  if (launch.rank == 0) {
    const bool exposed = std::any_of(options.candidates.begin(), options.candidates.end(),
                                     [](const Address& address) { return !address.loopback(); });
    if (count == 0 && exposed && !launch.secret_is_private &&
        log.enabled(Subsystem::kInit, LogLevel::kWarn)) {
      log.write(
          Subsystem::kInit, LogLevel::kWarn,
          fmt::format("ranks meet at {} with a key made of what {} tells every rank, which an "
                      "attacker may know; set BANYAN_SECRET to the same random text on all "
                      "ranks",
                      options.candidates[0].text(), name_of(launch.kind)));
    }
    const auto opened = open_at_one_of(options, also, log);
    if (!opened.ok()) return opened.status();
    options.candidates = {*opened};
    options.must_listen = true;
  }
  return join_rendezvous(options, log);
}

Result<std::unique_ptr<ProcessManager>> open_manager(const Launch& launch,
                                                     const RawEnvironment& raw,
                                                     TimePoint deadline) {
  if (launch.kind != LauncherKind::kHydra) return open_pmix(deadline);
  const std::string* text = raw.find("PMI_FD");
  const auto descriptor = parse_integer(text != nullptr ? *text : "", 0, INT32_MAX);
  if (!descriptor.ok()) {
    return Status(Code::kInvalidArgument, "PMI_FD is not the number of a descriptor");
  }
  return open_pmi(static_cast<int>(*descriptor), launch.rank, launch.size, deadline);
}

// An answer that comes late would be taken for that of the next question, so there is no next one.
// In an exchange of all ranks the others would be misled, too.
Status or_unanswered(const Status& status) {
  if (status.code() == Code::kTimeout) process().launcher_unanswered = true;
  return status;
}

Result<std::unique_ptr<Exchange>> meet_through_manager(const Launch& launch,
                                                       const RawEnvironment& raw,
                                                       const Environment& environment, int count,
                                                       TimePoint deadline, const Log& log) {
  if (process().launcher_unanswered.load()) {
    return Status(Code::kTimeout,
                  "the process manager has not answered an earlier exchange of this process within "
                  "its time limit, and ranks cannot meet through it any more: start them again, "
                  "with a longer BANYAN_INIT_TIMEOUT");
  }
  auto manager = open_manager(launch, raw, deadline);
  if (!manager.ok()) return or_unanswered(manager.status());
  const int size = launch.size > 0 ? launch.size : (*manager)->size();
  if (size == 1) return alone();
  std::string text;
  Status opened_status;
  if (launch.rank == 0) {
    UniqueId id;
    const auto key = random_key();
    if (!key.ok()) return key.status();
    id.key = *key;
    auto addresses = listening_addresses(environment, launch.one_host);
    opened_status = addresses.status();
    if (opened_status.ok()) {
      addresses->resize(std::min(addresses->size(), kMeetingAddressesMost));
      const auto opened = open_rendezvous({addresses->front(),
                                           environment.port_range,
                                           id.key,
                                           deadline,
                                           {addresses->begin() + 1, addresses->end()}},
                                          log);
      opened_status = opened.status();
      for (const Address& one : *addresses) {
        id.address = one;
        id.address.port = opened.ok() ? opened->port : 0;
        text += to_hex(id.pack());
      }
    }
    // The others wait in the broadcast and must be told.
    if (!opened_status.ok()) text = "failed";
  }
  const auto sent = (*manager)->broadcast(fmt::format("banyan-{}", count), text);
  const Status passed_on = or_unanswered(sent.status());
  if (!opened_status.ok()) return opened_status;
  BANYAN_TRY(passed_on);
  if (*sent == "failed") {
    return Status(Code::kRemote, "rank 0 could not open a rendezvous; its own error says why");
  }
  const auto ids = ids_of_hex(*sent);
  if (!ids.ok()) return ids.status();
  std::vector<Address> candidates;
  for (const UniqueId& id : *ids) candidates.push_back(id.address);
  auto exchange = join_rendezvous({.rank = launch.rank,
                                   .size = size,
                                   .candidates = std::move(candidates),
                                   .must_listen = true,
                                   .key = ids->front().key,
                                   .deadline = deadline},
                                  log);
  if (exchange.status().code() != Code::kInvalidUsage) return exchange;
  return Status(Code::kTimeout,
                fmt::format("rank 0 no longer waits at {}: this rank has come later than "
                            "BANYAN_INIT_TIMEOUT allows, or another one has given up",
                            ids->front().address.text()));
}

// Ranks that are missing or there twice are often numbered by another launcher than was meant.
Status with_origin(const Launch& launch, const Status& status) {
  const bool about_ranks = status.code() == Code::kMismatch || status.code() == Code::kTimeout;
  if (!about_ranks && launch.overruled.empty()) return status;
  return {status.code(),
          fmt::format("{}; {}{}{}", status.message(), launch.origin,
                      launch.overruled.empty() ? "" : "; not believed: ", launch.overruled)};
}

Result<std::unique_ptr<Exchange>> meet_by_kind(const Launch& launch, const RawEnvironment& raw,
                                               const Environment& environment, int count,
                                               TimePoint deadline, const Log& log) {
  switch (launch.kind) {
    case LauncherKind::kOwn:
    case LauncherKind::kTorchrun:
    case LauncherKind::kSlurm: return meet_at_addresses(launch, environment, count, deadline, log);
    case LauncherKind::kOpenMpi:
    case LauncherKind::kHydra:
    case LauncherKind::kPmix:
      return meet_through_manager(launch, raw, environment, count, deadline, log);
  }
  return Status(Code::kInternal, "an unknown launcher");
}

}  // namespace

Result<std::unique_ptr<Exchange>> meet(const Launch& launch, const RawEnvironment& raw,
                                       const Environment& environment, int count,
                                       TimePoint deadline, const Log& log) {
  if (launch.size == 1) return alone();
  auto exchange = meet_by_kind(launch, raw, environment, count, deadline, log);
  if (exchange.ok()) return exchange;
  return with_origin(launch, exchange.status());
}

}  // namespace banyan
