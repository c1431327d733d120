// banyan.h: communicators, from their making to their end.
// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/communicator.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "src/base/most_ranks.h"
#include "src/base/process.h"
#include "src/bootstrap/launcher.h"
#include "src/bootstrap/rendezvous.h"
#include "src/c_api/arguments.h"
#include "src/c_api/group.h"
#include "src/c_api/run.h"
#include "src/c_api/structs.h"
#include "src/communicator/assembly.h"
#include "src/communicator/settings.h"
#include "src/reducer/reducer.h"

using banyan::Code;
using banyan::Collective;
using banyan::door;
using banyan::kMostRanks;
using banyan::open_communicator;
using banyan::OpenCommunicator;
using banyan::Result;
using banyan::run_internal;
using banyan::Settings;
using banyan::settings_of;
using banyan::Status;

namespace {

template <typename... Values>
Status wrong(fmt::format_string<Values...> text, Values&&... values) {
  return {Code::kInvalidArgument, fmt::format(text, std::forward<Values>(values)...)};
}

Status check_out(const void* pointer, std::string_view name) {
  return pointer != nullptr ? Status() : wrong("{} is NULL", name);
}

// What is made is there only after a success.
template <typename Handle>
void clear(Handle* made) {
  if (made != nullptr) *made = nullptr;
}

Status check_place(int rank, int rank_count) {
  if (rank_count < 1 || rank_count > kMostRanks)
    return wrong("rank_count is {}; valid: 1 to {}", rank_count, kMostRanks);
  if (rank < 0 || rank >= rank_count)
    return wrong("rank is {}; valid: 0 to {}", rank, rank_count - 1);
  return {};
}

Result<banyan::Wishes> wishes_of(const banyan_config_t* given) {
  const banyan_config_t defaults = BANYAN_CONFIG_INIT;
  const Result<banyan_config_t> config = banyan::complete_struct(given, defaults, "config");
  BANYAN_TRY(config.status());
  BANYAN_TRY(banyan::check_timeout(config->timeout_s, "timeout_s"));
  BANYAN_TRY(banyan::check_timeout(config->init_timeout_s, "init_timeout_s"));
  std::optional<banyan::Compression> compression;
  if (config->compression != nullptr) {
    const Result<banyan::Compression> read = banyan::read_compression(config->compression);
    BANYAN_TRY(read.status());
    compression = *read;
  }
  const int determinism = banyan::number_in(config->determinism);
  if (determinism < 0 || determinism > BANYAN_INVARIANT)
    return wrong("determinism is {}; valid: 0 (default), 1 (deterministic), 2 (invariant)",
                 determinism);
  banyan::Wishes wishes;
  wishes.name = config->name != nullptr ? config->name : "";
  wishes.transports = config->transports != nullptr ? config->transports : "";
  wishes.timeout_s = config->timeout_s;
  wishes.init_timeout_s = config->init_timeout_s;
  wishes.invariant = determinism == BANYAN_INVARIANT;
  wishes.compression = compression;
  return wishes;
}

}  // namespace

Result<Settings> banyan::settings_of(const banyan_config_t* config, int rank) {
  const Result<banyan::Wishes> wishes = wishes_of(config);
  BANYAN_TRY(wishes.status());
  const banyan::RawEnvironment raw = banyan::RawEnvironment::of_process();
  Result<Settings> settings = banyan::make_settings(*wishes, raw, rank);
  if (settings.ok()) banyan::report_variables(raw, *settings, rank);
  return settings;
}

Status banyan::open_communicator(Exchange& exchange, Settings settings, TimePoint deadline,
                                 banyan_comm_t* comm) {
  Result<std::unique_ptr<banyan::Membership>> membership =
      banyan::assemble(exchange, std::move(settings), deadline);
  BANYAN_TRY(membership.status());
  auto communicator = std::make_unique<OpenCommunicator>();
  communicator->membership = std::move(*membership);
  communicator->incarnation = banyan::process().incarnation.now();
  const uint64_t place = banyan::process().communicators.insert(communicator.get());
  if (place == 0) return {Code::kSystem, "too many communicators in this process"};
  communicator->handle = banyan::communicator_handle(place);
  *comm = communicator.release()->handle;  // owned through its handle until banyan_comm_destroy
  return {};
}

Status banyan::run_internal(OpenCommunicator& communicator, Collective collective, const void* send,
                            void* recv, size_t bytes, double timeout_s) {
  Call call;
  call.problem.collective = collective;
  call.problem.type = DataType::kUint8;
  call.problem.count = bytes;
  call.problem.check = communicator.membership->settings().environment.check;
  call.send = send;
  call.recv = recv;
  call.timeout_s = timeout_s;
  return run_now(communicator, call);
}

namespace {

Status init(banyan_comm_t* comm, int rank_count, const banyan_unique_id_t* id, int rank,
            const banyan_config_t* config) {
  clear(comm);
  BANYAN_TRY(banyan::refuse_in_group("banyan_comm_init"));
  BANYAN_TRY(check_out(comm, "comm"));
  BANYAN_TRY(check_place(rank, rank_count));
  BANYAN_TRY(check_out(id, "id"));
  Result<Settings> settings = settings_of(config, rank);
  BANYAN_TRY(settings.status());
  const Result<banyan::UniqueId> unpacked =
      banyan::unpack_unique_id(std::as_bytes(std::span<const char, sizeof id->bytes>(id->bytes)));
  BANYAN_TRY(unpacked.status());

  const banyan::TimePoint deadline = banyan::deadline_after(settings->init_timeout_s);
  const banyan::JoinOptions join{.rank = rank,
                                 .size = rank_count,
                                 .candidates = {unpacked->address},
                                 .must_listen = true,
                                 .key = unpacked->key,
                                 .deadline = deadline};
  Result<std::unique_ptr<banyan::Exchange>> exchange = banyan::join_rendezvous(join, settings->log);
  BANYAN_TRY(exchange.status());
  return open_communicator(**exchange, std::move(*settings), deadline, comm);
}

Status get_unique_id(banyan_unique_id_t* id) {
  BANYAN_TRY(check_out(id, "id"));
  const Result<Settings> settings = settings_of(nullptr, -1);
  BANYAN_TRY(settings.status());
  const Result<banyan::Key> key = banyan::random_key();
  BANYAN_TRY(key.status());
  const Result<banyan::Address> address = banyan::listening_address(settings->environment, true);
  BANYAN_TRY(address.status());
  const banyan::RendezvousOptions options{
      .address = *address,
      .ports = settings->environment.port_range,
      .key = *key,
      .deadline = banyan::deadline_after(settings->init_timeout_s)};
  const Result<banyan::Address> bound = banyan::open_rendezvous(options, settings->log);
  BANYAN_TRY(bound.status());
  const auto packed = banyan::UniqueId{.address = *bound, .key = *key}.pack();
  std::copy(packed.begin(), packed.end(), reinterpret_cast<std::byte*>(id->bytes));
  return {};
}

// After the calls of other threads.
Result<std::unique_ptr<banyan::Exchange>> meet_in_turn(const banyan::Launch& launch,
                                                       const banyan::RawEnvironment& raw,
                                                       const Settings& settings,
                                                       banyan::TimePoint deadline) {
  if (!banyan::process().meeting.try_acquire_until(deadline))
    return Status(Code::kTimeout,
                  "banyan_comm_init_env of another thread still waits for the other ranks");
  struct Turn {
    ~Turn() { banyan::process().meeting.release(); }
  };
  const Turn turn;
  const int count = banyan::process().meetings.fetch_add(1);
  return banyan::meet(launch, raw, settings.environment, count, deadline, settings.log);
}

Status init_env(banyan_comm_t* comm, const banyan_config_t* config) {
  clear(comm);
  BANYAN_TRY(banyan::refuse_in_group("banyan_comm_init_env"));
  BANYAN_TRY(check_out(comm, "comm"));
  const banyan::RawEnvironment raw = banyan::RawEnvironment::of_process();
  const Result<banyan::Environment> environment = banyan::parse_environment(raw);
  BANYAN_TRY(environment.status());
  const Result<banyan::Launch> launch = banyan::detect_launch(raw, *environment);
  BANYAN_TRY(launch.status());
  Result<Settings> settings = settings_of(config, launch->rank);
  BANYAN_TRY(settings.status());
  const banyan::TimePoint deadline = banyan::deadline_after(settings->init_timeout_s);
  const Result<std::unique_ptr<banyan::Exchange>> exchange =
      meet_in_turn(*launch, raw, *settings, deadline);
  BANYAN_TRY(exchange.status());
  return open_communicator(**exchange, std::move(*settings), deadline, comm);
}

Status init_exchange(banyan_comm_t* comm, const banyan_exchange_t* given,
                     const banyan_config_t* config) {
  clear(comm);
  BANYAN_TRY(banyan::refuse_in_group("banyan_comm_init_exchange"));
  BANYAN_TRY(check_out(comm, "comm"));
  BANYAN_TRY(check_out(given, "exchange"));
  const banyan_exchange_t defaults{sizeof(banyan_exchange_t), 0, 0, nullptr, nullptr};
  const Result<banyan_exchange_t> whole = banyan::complete_struct(given, defaults, "exchange");
  BANYAN_TRY(whole.status());
  BANYAN_TRY(check_place(whole->rank, whole->rank_count));
  if (whole->allgather == nullptr) return wrong("exchange.allgather is NULL");
  const auto allgather = [function = whole->allgather, context = whole->context](
                             const void* send, void* recv, size_t bytes) {
    return function(send, recv, bytes, context);
  };
  Result<Settings> settings = settings_of(config, whole->rank);
  BANYAN_TRY(banyan::call_roll(whole->rank, whole->rank_count, allgather, settings.status()));
  const auto exchange = banyan::exchange_over(whole->rank, whole->rank_count, allgather);
  const banyan::TimePoint deadline = banyan::deadline_after(settings->init_timeout_s);
  return open_communicator(*exchange, std::move(*settings), deadline, comm);
}

// Requests that are in flight are completed first, well or not.
Status finish_requests(OpenCommunicator& communicator) {
  Status status;
  for (const uint64_t place : communicator.requests) {
    auto* request = static_cast<banyan::OpenRequest*>(banyan::process().requests.find(place));
    if (request == nullptr || request->state != banyan::OpenRequest::State::kRunning) continue;
    const Status driven = banyan::complete_request(*request);
    if (status.ok()) status = driven;
  }
  return status;
}

// Until wait or test has said that they are complete, also after a failure: a thread may be there.
bool has_requests_in_flight(const OpenCommunicator& communicator) {
  return std::any_of(
      communicator.requests.begin(), communicator.requests.end(), [](uint64_t place) {
        const auto* request =
            static_cast<banyan::OpenRequest*>(banyan::process().requests.find(place));
        return request != nullptr && request->state == banyan::OpenRequest::State::kRunning;
      });
}

Status refuse_with_reducers(OpenCommunicator& communicator) {
  const std::lock_guard lock(communicator.reducers_mutex);
  if (communicator.reducers.empty()) return {};
  return {Code::kInvalidUsage, fmt::format("the communicator has {} reducers: destroy them first",
                                           communicator.reducers.size())};
}

Status finalize(banyan_comm_t comm) {
  BANYAN_TRY(banyan::refuse_in_group("banyan_comm_finalize"));
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  OpenCommunicator& communicator = **found;
  BANYAN_TRY(banyan::check_usable(communicator));
  BANYAN_TRY(refuse_with_reducers(communicator));
  BANYAN_TRY(finish_requests(communicator));
  banyan::Driver(*communicator.membership)->leave_windows();
  BANYAN_TRY(run_internal(communicator, Collective::kFinalize, nullptr, nullptr, 0));
  banyan::Membership& membership = *communicator.membership;
  BANYAN_TRY(
      banyan::Driver(membership)->depart(banyan::deadline_after(membership.settings().timeout_s)));
  communicator.finalized.store(true);
  return {};
}

Status destroy(banyan_comm_t comm) {
  if (comm == nullptr) return {};
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  OpenCommunicator& communicator = **found;
  const bool failed = communicator.membership->failure().failed();
  if (!communicator.finalized.load() && !failed)
    return {Code::kInvalidUsage,
            "the communicator is neither finalized, aborted nor failed: finalize or abort it "
            "first"};
  if (!banyan::others_are_out(comm, 0))
    return {Code::kInvalidUsage,
            "another thread is inside a call on the communicator, which does not end although the "
            "communicator has: nothing is freed"};
  if (has_requests_in_flight(communicator))
    return {Code::kInvalidUsage,
            "the communicator has requests in flight: wait for them first, which returns at once "
            "after an abort or a failure"};
  BANYAN_TRY(refuse_with_reducers(communicator));
  const std::unique_ptr<OpenCommunicator> owned(static_cast<OpenCommunicator*>(
      banyan::process().communicators.remove(banyan::place_of(comm))));
  banyan::Driver(*communicator.membership)->engine().cancel();
  for (const uint64_t place : communicator.requests) {
    const std::unique_ptr<banyan::OpenRequest> request(
        static_cast<banyan::OpenRequest*>(banyan::process().requests.remove(place)));
  }
  return {};
}

template <typename Value>
Status ask(banyan_comm_t comm, Value* out, std::string_view name, const auto& value_of) {
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  BANYAN_TRY(check_out(out, name));
  *out = value_of(**found);
  return {};
}

}  // namespace

banyan_result_t banyan_get_unique_id(banyan_unique_id_t* id) {
  return door([&] { return get_unique_id(id); });
}

banyan_result_t banyan_comm_init(banyan_comm_t* comm, int rank_count, const banyan_unique_id_t* id,
                                 int rank, const banyan_config_t* config) {
  return door([&] { return init(comm, rank_count, id, rank, config); });
}

banyan_result_t banyan_comm_init_env(banyan_comm_t* comm, const banyan_config_t* config) {
  return door([&] { return init_env(comm, config); });
}

banyan_result_t banyan_comm_init_exchange(banyan_comm_t* comm, const banyan_exchange_t* exchange,
                                          const banyan_config_t* config) {
  return door([&] { return init_exchange(comm, exchange, config); });
}

banyan_result_t banyan_comm_rank(banyan_comm_t comm, int* rank) {
  return door(comm, [&] {
    return ask(comm, rank, "rank", [](OpenCommunicator& open) { return open.membership->rank(); });
  });
}

banyan_result_t banyan_comm_size(banyan_comm_t comm, int* size) {
  return door(comm, [&] {
    return ask(comm, size, "size", [](OpenCommunicator& open) { return open.membership->size(); });
  });
}

banyan_result_t banyan_comm_finalize(banyan_comm_t comm) {
  return door(comm, [&] { return finalize(comm); });
}

banyan_result_t banyan_comm_destroy(banyan_comm_t comm) {
  return banyan::run_body(comm, [&] { return destroy(comm); });  // not inside itself
}

banyan_result_t banyan_comm_abort(banyan_comm_t comm) {
  return door(comm, [&]() -> Status {
    const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
    BANYAN_TRY(found.status());
    if ((*found)->finalized.load()) return {};
    (*found)->membership->abort();
    const std::lock_guard lock((*found)->reducers_mutex);
    for (banyan::GradientReducer* reducer : (*found)->reducers) reducer->abort();
    return {};
  });
}

banyan_result_t banyan_comm_async_error(banyan_comm_t comm, banyan_result_t* error) {
  return door(comm, [&] {
    return ask(comm, error, "error", [](OpenCommunicator& open) {
      return static_cast<banyan_result_t>(open.membership->failure().verdict().code);
    });
  });
}

banyan_result_t banyan_comm_failed_rank(banyan_comm_t comm, int* rank) {
  return door(comm, [&] {
    return ask(comm, rank, "rank", [](OpenCommunicator& open) {
      return open.membership->failure().verdict().failed_rank;
    });
  });
}

const char* banyan_last_error(banyan_comm_t comm) {
  return banyan::last_text(comm);
}
