// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/c_api/arguments.h"
#include "src/c_api/run.h"
#include "src/communicator/quick_call.h"

namespace banyan {

constinit thread_local int group_depth = 0;

namespace {

// A call as it has joined a group. Handles, because a communicator may be destroyed while the group
// is open. Small, because windows have many.
struct Joined {
  banyan_comm_t comm;
  banyan_request_t request = nullptr;  // null for a blocking call
  std::optional<PlainCall> plain{};    // what the caller said, where it is that
  // Where it is known: then it was checked once, and has no place in CallGroup::checked. Meanwhile
  // another thread's call may take that place.
  const KnownCalls::Place* place = nullptr;
  size_t checked = 0;  // index
};
static_assert(std::is_trivially_copyable_v<Joined>);

// The same when the group ends.
struct Item {
  const Joined* joined;
  Pinned inside;
  OpenCommunicator* communicator;
  OpenRequest* request = nullptr;
  Call call;
  Driver* driver = nullptr;        // of the communicator, once the group runs
  Operation* operation = nullptr;  // from prepare() on

  const Problem& problem() const { return call.problem; }
  // Null: it is ordered by no stream.
  StreamTurn* stream_turn() const { return request == nullptr ? nullptr : request->turn.get(); }
  Membership& membership() const { return *communicator->membership; }
};

// Requests of a group that has ended, or whose thread has.
void leave_group(const std::vector<Joined>& calls) noexcept;

struct CallGroup {
  CallGroup() = default;
  CallGroup(CallGroup&&) = default;
  CallGroup& operator=(CallGroup&&) = default;
  ~CallGroup() { leave_group(calls); }

  Status failed;
  banyan_comm_t failed_on = nullptr;
  std::vector<Joined> calls;
  std::vector<Call> checked;
};

CallGroup& group() {
  thread_local CallGroup open;
  return open;
}

bool to_self(const Item& item) {
  return is_message(item.problem().collective) && item.problem().root == item.membership().rank();
}

bool on_same_stream(const Item& left, const Item& right) {
  if (left.stream_turn() == nullptr || right.stream_turn() == nullptr)
    return left.stream_turn() == right.stream_turn();
  return left.stream_turn()->stream() == right.stream_turn()->stream();
}

// The n-th send to oneself meets the n-th receive from oneself. Checked before anything moves.
Status pair_own_messages(std::vector<Item>& items, std::vector<std::pair<Item*, Item*>>& pairs) {
  std::vector<Item*> open_sends, open_receives;
  for (Item& item : items) {
    if (!to_self(item)) continue;
    const bool sends = item.problem().collective == Collective::kSend;
    auto& others = sends ? open_receives : open_sends;
    const auto other = std::find_if(others.begin(), others.end(), [&](const Item* each) {
      return each->communicator == item.communicator;
    });
    if (other == others.end()) {
      (sends ? open_sends : open_receives).push_back(&item);
      continue;
    }
    pairs.emplace_back(sends ? &item : *other, sends ? *other : &item);
    others.erase(other);
  }
  if (!open_sends.empty() || !open_receives.empty())
    return {Code::kInvalidUsage,
            fmt::format("a {} itself without its counterpart in the group",
                        open_sends.empty() ? "rank receives from" : "rank sends to")};
  for (const auto& [send, receive] : pairs) {
    const Problem& out = send->problem();
    const Problem& in = receive->problem();
    if (out.type != in.type || out.count != in.count)
      return {Code::kInvalidArgument,
              fmt::format("a message to oneself has {} {}, its receive {} {}: count and type must "
                          "be equal",
                          out.count, name_of(out.type), in.count, name_of(in.type))};
    if (!on_same_stream(*send, *receive))
      return {Code::kInvalidUsage,
              "a message to oneself and its receive start on the same stream, or on none"};
  }
  return {};
}

Status copy_own_message(const Item& send, const Item& receive) {
  const Problem& problem = send.problem();
  const uint64_t bytes = problem.count * problem.element();
  if (bytes != 0)
    BANYAN_TRY(receive.stream_turn() != nullptr
                   ? receive.stream_turn()->copy(receive.call.recv, send.call.send, bytes)
                   : (*receive.driver)->copy_own(send.call, receive.call, bytes));
  const Trace& trace = (*receive.driver)->trace();
  if (trace.calls()) trace.copied(receive.problem());
  for (OpenRequest* request : {send.request, receive.request}) {
    if (request == nullptr) continue;
    request->state = OpenRequest::State::kDone;
    request->result = Status();
  }
  return {};
}

bool is_launched(const Item& item) {
  return item.operation != nullptr && item.operation->launched;
}

// Nothing of it begins: what the caller enqueues behind it goes on.
void leave_stream(const Item& item) {
  if (item.stream_turn() != nullptr) item.stream_turn()->give_up();
}

// Everything that may be missing, so that what follows only fails when it has begun.
Status prepare(Item& item) {
  Driver& driver = *item.driver;
  if (item.stream_turn() != nullptr) BANYAN_TRY(item.stream_turn()->enter());
  return with_memory(driver, [&]() -> Status {
    const std::shared_ptr<Plan> plan =
        item.request != nullptr ? item.request->plan : driver->plan(item.call);
    const Result<Operation*> operation = driver->prepare(plan, item.call);
    BANYAN_TRY(operation.status());
    item.operation = *operation;
    return {};
  });
}

void launch(Item& item) {
  Driver& driver = *item.driver;
  driver->launch(item.operation, item.call);
  const Trace& trace = driver->trace();
  if (trace.calls()) trace.begins(*item.operation, item.operation->execution.envelope().call);
  if (item.request == nullptr) return;
  item.request->operation = item.operation;
  item.request->state = OpenRequest::State::kRunning;
}

void remember_messages(const std::vector<Item>& items) {
  for (const Item& item : items)
    if (item.joined->plain && is_message(item.problem().collective) && !to_self(item) &&
        item.communicator->known.find(*item.joined->plain) == nullptr)
      remember(*item.driver, *item.communicator, *item.joined->plain, item.call);
}

Result<Item> resolve(CallGroup& open, const Joined& joined) {
  Pinned inside(joined.comm);
  const Result<OpenCommunicator*> communicator = find_communicator(joined.comm);
  BANYAN_TRY(communicator.status());
  OpenRequest* request = nullptr;
  if (joined.request != nullptr) {
    const Result<OpenRequest*> found = find_request(joined.request);
    BANYAN_TRY(found.status());
    request = *found;
  }
  BANYAN_TRY(check_usable(**communicator));
  Result<Call> call = joined.place == nullptr ? std::move(open.checked[joined.checked])
                                              : check_call(**communicator, call_of(*joined.plain));
  BANYAN_TRY(call.status());
  return Item{.joined = &joined,
              .inside = std::move(inside),
              .communicator = *communicator,
              .request = request,
              .call = std::move(*call)};
}

Driver& driver_of(Membership& membership, std::vector<Driver>& drivers) {
  const auto found = std::find_if(drivers.begin(), drivers.end(), [&](const Driver& each) {
    return &each.membership() == &membership;
  });
  return found != drivers.end() ? *found : drivers.emplace_back(membership);
}

Status run_resolved(std::vector<Item>& items) {
  std::vector<std::pair<Item*, Item*>> own;
  BANYAN_TRY(pair_own_messages(items, own));

  std::vector<Driver> drivers;
  std::vector<Operation*> running;  // that nobody waits for later
  drivers.reserve(items.size());    // so that they stay where they are
  running.reserve(items.size());
  Status status;
  for (Item& item : items) {
    item.driver = &driver_of(item.membership(), drivers);
    if (to_self(item)) continue;
    status = prepare(item);
    if (!status.ok()) break;
    if (item.request == nullptr) running.push_back(item.operation);
  }
  if (status.ok()) {
    for (Item& item : items)
      if (item.operation != nullptr) launch(item);
    for (const auto& [send, receive] : own)
      if (status.ok()) status = copy_own_message(*send, *receive);
    const Status driven = drive_through(drivers, running);
    if (status.ok()) status = driven;
  }
  for (Item& item : items)
    if (!status.ok() && !is_launched(item)) leave_stream(item);
  for (Item& item : items)
    if (item.operation != nullptr && (item.request == nullptr || !is_launched(item)))
      (*item.driver)->finish(item.operation);
  if (status.ok()) remember_messages(items);
  return status;
}

// Tells a window: known messages from one rank to one other, as benchmarks and pipelines have them.
bool is_window(const std::vector<Joined>& calls) {
  if (calls.empty() || calls.front().place == nullptr) return false;
  const Joined& first = calls.front();
  const PlainCall& message = *first.plain;
  const auto continues = [&](const Joined& each) {
    return each.place != nullptr && each.comm == first.comm &&
           each.plain->collective == message.collective && each.plain->root == message.root;
  };
  return (message.collective == BANYAN_SEND || message.collective == BANYAN_RECV) &&
         std::all_of(calls.begin(), calls.end(), continues);
}

// Runs a window as programs, one after another, of which only the last waits to be taken. In that
// order none can wait for another, so they need no engine. False: nothing was begun, since the
// communicator has something else under way or knows one of them no more.
Result<bool> run_window(const std::vector<Joined>& calls) {
  const Pinned inside(calls.front().comm);
  const Result<OpenCommunicator*> communicator = find_communicator(calls.front().comm);
  BANYAN_TRY(communicator.status());
  BANYAN_TRY(check_usable(**communicator));
  const auto known = [](const Joined& each) {
    return each.place->serves(*each.plain) && each.place->known.quick != nullptr;
  };
  if (!takes_known(**communicator) || !std::all_of(calls.begin(), calls.end(), known)) return false;
  Driver driver = Driver::of_resting(*(*communicator)->membership);
  const Status status = with_memory(driver, [&]() -> Status {
    for (const Joined& each : calls) {
      QuickCall& quick = *each.place->known.quick;
      driver->begin(quick, each.plain->send, each.plain->recv, &each != &calls.back());
      if (!run_through(driver, quick)) BANYAN_TRY(go_on(driver, quick));
    }
    return {};
  });
  if (status.ok()) driver.leave_quickly();
  if (!status.ok()) return status;
  return true;
}

Status run_group(CallGroup& open) {
  if (is_window(open.calls)) {
    const Result<bool> ran = run_window(open.calls);
    if (!ran.ok() || *ran) return ran.status();
  }
  try {
    std::vector<Item> items;
    items.reserve(open.calls.size());
    for (const Joined& each : open.calls) {
      Result<Item> item = resolve(open, each);
      BANYAN_TRY(item.status());
      items.push_back(std::move(*item));
    }
    return run_resolved(items);
  } catch (const std::bad_alloc&) {
    Status status;
    for (const Joined& each : open.calls) {
      const Pinned inside(each.comm);
      if (inside.get() != nullptr) status = run_out_of_memory(*inside.get()->membership);
    }
    return status;
  }
}

// Finds what an error of the open group is on: where a call went wrong, or the only communicator.
// Null where it may be on several.
banyan_comm_t communicator_of_group() noexcept {
  const CallGroup& open = group();
  if (!open.failed.ok()) return open.failed_on;
  const auto elsewhere = [&](const Joined& each) { return each.comm != open.calls.front().comm; };
  const bool one =
      !open.calls.empty() && std::none_of(open.calls.begin(), open.calls.end(), elsewhere);
  return one ? open.calls.front().comm : nullptr;
}

void leave_group(const std::vector<Joined>& calls) noexcept {
  for (const Joined& each : calls) {
    if (each.request == nullptr) continue;
    void* found = process().requests.find(place_of(each.request));
    if (found != nullptr) static_cast<OpenRequest*>(found)->grouped = false;
  }
}

// The next group of this thread needs no memory of its own.
void keep_room(std::vector<Joined>& ended) {
  constexpr size_t kMost = 1024;  // less than 100 KiB
  std::vector<Joined>& next = group().calls;
  if (ended.capacity() > kMost || ended.capacity() <= next.capacity()) return;
  ended.clear();
  next.swap(ended);
}

// Those that a failure has kept from starting.
void refuse_requests(const std::vector<Joined>& calls) {
  for (const Joined& each : calls) {
    void* found = process().requests.find(place_of(each.request));
    if (found == nullptr) continue;
    auto& request = *static_cast<OpenRequest*>(found);
    Failure& failure = request.communicator->membership->failure();
    if (failure.failed() && request.state != OpenRequest::State::kRunning)
      refuse_request(request, failure.status());
  }
}

}  // namespace

bool join_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept {
  if (communicator == nullptr || !in_group() || communicator->finalized.load() ||
      communicator->membership->failure().failed())
    return false;
  std::vector<Joined>& calls = group().calls;
  // Windows have mostly equal messages.
  const bool like_last = !calls.empty() && calls.back().place != nullptr &&
                         calls.back().comm == communicator->handle &&
                         calls.back().place->serves(plain);
  const KnownCalls::Place* place = like_last ? calls.back().place : communicator->known.find(plain);
  if (place == nullptr || place->known.quick == nullptr) return false;
  try {
    calls.push_back({.comm = communicator->handle, .plain = plain, .place = place});
  } catch (const std::bad_alloc&) {
    return false;  // which is found again, and told
  }
  return true;
}

void fail_group(const Status& status, banyan_comm_t comm) {
  if (!in_group() || !group().failed.ok()) return;
  group().failed = status;
  group().failed_on = comm;
}

Status refuse_in_group(std::string_view function) {
  if (!in_group()) return {};
  return {Code::kInvalidUsage, fmt::format("{} inside a group", function)};
}

Status join_group(OpenCommunicator& communicator, const Call& call, banyan_request_t request,
                  const PlainCall* plain) {
  return with_memory(*communicator.membership, [&]() -> Status {
    CallGroup& open = group();
    open.checked.push_back(call);
    open.calls.push_back({.comm = communicator.handle,
                          .request = request,
                          .plain = plain != nullptr ? std::optional(*plain) : std::nullopt,
                          .checked = open.checked.size() - 1});
    return {};
  });
}

}  // namespace banyan

using banyan::Code;
using banyan::door;
using banyan::Status;

banyan_result_t banyan_group_start(void) {
  return door([]() -> Status {
    ++banyan::group_depth;
    return {};
  });
}

banyan_result_t banyan_group_end(void) {
  return door(banyan::communicator_of_group(), []() -> Status {
    if (banyan::group_depth == 0)
      return {Code::kInvalidUsage, "banyan_group_end without banyan_group_start"};
    if (--banyan::group_depth > 0) return {};
    banyan::CallGroup open = std::exchange(banyan::group(), {});
    Status status = open.failed.ok() ? banyan::run_group(open) : open.failed;
    if (!status.ok()) banyan::refuse_requests(open.calls);
    banyan::leave_group(open.calls);
    banyan::keep_room(open.calls);
    return status;
  });
}
