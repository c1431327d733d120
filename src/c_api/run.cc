// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "src/base/copy.h"
#include "src/c_api/arguments.h"
#include "src/c_api/message_line.h"
#include "src/communicator/drive.h"

namespace banyan {
namespace {

// Handles, because a communicator may be destroyed while the group is open.
struct Item {
  banyan_comm_t comm;
  banyan_request_t request_handle;  // null for a blocking call
  Call call;
  std::optional<PlainCall> plain;            // the same, where it is
  OpenCommunicator* communicator = nullptr;  // from resolve() on, and pinned
  Pinned inside{};
  OpenRequest* request = nullptr;
  Operation* operation = nullptr;  // from prepare() on

  Membership& membership() const { return *communicator->membership; }
};

// Counts the groups that this thread has open. It lies apart from the rest, so that looking at it
// costs no initialisation.
constinit thread_local int group_depth = 0;

// Requests of a group that has ended, or whose thread has.
void leave_group(std::vector<Item>& items) noexcept;

struct CallGroup {
  CallGroup() = default;
  CallGroup(CallGroup&&) = default;
  CallGroup& operator=(CallGroup&&) = default;
  ~CallGroup() { leave_group(items); }

  Status failed;
  banyan_comm_t failed_on = nullptr;
  MessageLine line;  // all calls so far, or none
  std::vector<Item> items;
};

CallGroup& group() {
  thread_local CallGroup open;
  return open;
}

bool to_self(const Item& item) {
  return is_message(item.call.problem.collective) &&
         item.call.problem.root == item.membership().rank();
}

// The n-th send to oneself meets the n-th receive from oneself. Checked before anything moves.
Status pair_own_messages(std::vector<Item>& items, std::vector<std::pair<Item*, Item*>>& pairs) {
  std::vector<Item*> open_sends, open_receives;
  for (Item& item : items) {
    if (!to_self(item)) continue;
    const bool sends = item.call.problem.collective == Collective::kSend;
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
    const Problem& out = send->call.problem;
    const Problem& in = receive->call.problem;
    if (out.type != in.type || out.count != in.count)
      return {Code::kInvalidArgument,
              fmt::format("a message to oneself has {} {}, its receive {} {}: count and type must "
                          "be equal",
                          out.count, name_of(out.type), in.count, name_of(in.type))};
  }
  return {};
}

void copy_own_message(const Item& send, const Item& receive) {
  const Problem& problem = send.call.problem;
  if (problem.count != 0)
    copy_bytes(static_cast<std::byte*>(receive.call.recv),
               static_cast<const std::byte*>(send.call.send), problem.count * problem.element());
  const Trace& trace = receive.membership().trace();
  if (trace.calls()) trace.copied(receive.call.problem);
  for (OpenRequest* request : {send.request, receive.request}) {
    if (request == nullptr) continue;
    request->state = OpenRequest::State::kDone;
    request->result = Status();
  }
}

// Everything that may be missing, so that what follows only fails when it has begun.
Status prepare(Item& item) {
  Membership* membership = &item.membership();
  membership->take_baton();
  return with_memory({&membership, 1}, [&]() -> Status {
    const std::shared_ptr<Plan> plan =
        item.request != nullptr ? item.request->plan : membership->plan(item.call);
    const Result<Operation*> operation = membership->prepare(plan, item.call);
    BANYAN_TRY(operation.status());
    item.operation = *operation;
    return {};
  });
}

void launch(Item& item) {
  Membership& membership = item.membership();
  membership.launch(item.operation, item.call);
  const Trace& trace = membership.trace();
  if (trace.calls()) trace.begins(*item.operation, item.operation->execution.envelope().call);
  if (item.request == nullptr) return;
  item.request->operation = item.operation;
  item.request->state = OpenRequest::State::kRunning;
}

// Requires the baton.
Status run_plan(Membership& membership, const std::shared_ptr<Plan>& plan, const Call& call) {
  const Result<Operation*> operation = membership.start(plan, call);
  BANYAN_TRY(operation.status());
  Membership* only = &membership;
  Operation* running = *operation;
  Status status = drive_through({&only, 1}, {&running, 1});
  membership.finish(running);
  return status;
}

// A call that is too long for a program, or finds others under way.
Status run_known(Membership& membership, const KnownCall& known, const PlainCall& plain) {
  Call call;
  call.send = plain.send;
  call.recv = plain.recv;
  membership.take_baton();
  return run_plan(membership, known.plan, call);
}

// So that the next such call need not be checked and planned again.
void remember(OpenCommunicator& communicator, const PlainCall& plain, const Call& call) {
  Membership& membership = *communicator.membership;
  if (plain.op > BANYAN_AVG || !membership.at_rest()) return;
  try {
    const std::shared_ptr<Plan> plan = membership.plan(call);
    communicator.known.remember(plain, call, {plan, membership.prepare_quick(plan)});
  } catch (const std::bad_alloc&) {
    return;  // this call has ended well; the next one is checked as this one was
  }
}

void remember_messages(const std::vector<Item>& items) {
  for (const Item& item : items)
    if (item.plain && is_message(item.call.problem.collective) && !to_self(item) &&
        item.communicator->known.find(*item.plain) == nullptr)
      remember(*item.communicator, *item.plain, item.call);
}

Status resolve(Item& item) {
  item.inside = Pinned(item.comm);
  const Result<OpenCommunicator*> communicator = find_communicator(item.comm);
  BANYAN_TRY(communicator.status());
  item.communicator = *communicator;
  if (item.request_handle != nullptr) {
    const Result<OpenRequest*> request = find_request(item.request_handle);
    BANYAN_TRY(request.status());
    item.request = *request;
  }
  return check_usable(**communicator);
}

Status run_resolved(std::vector<Item>& items) {
  std::vector<std::pair<Item*, Item*>> own;
  BANYAN_TRY(pair_own_messages(items, own));

  std::vector<Membership*> memberships;
  std::vector<Operation*> running;  // that nobody waits for later
  memberships.reserve(items.size());
  running.reserve(items.size());
  Status status;
  for (Item& item : items) {
    if (to_self(item)) continue;
    Membership* membership = &item.membership();
    if (std::find(memberships.begin(), memberships.end(), membership) == memberships.end())
      memberships.push_back(membership);
    status = prepare(item);
    if (!status.ok()) break;
    if (item.request == nullptr) running.push_back(item.operation);
  }
  if (status.ok()) {
    for (Item& item : items)
      if (item.operation != nullptr) launch(item);
    for (const auto& [send, receive] : own) copy_own_message(*send, *receive);
    status = drive_through(memberships, running);
  }
  for (Item& item : items)
    if (item.operation != nullptr && (item.request == nullptr || !item.operation->launched))
      item.membership().finish(item.operation);
  if (status.ok()) remember_messages(items);
  for (Membership* membership : memberships) membership->leave_baton();
  return status;
}

// Messages of the line as other calls of the group. Requires memory.
Status unfold(CallGroup& open) {
  for (const auto& [plain, place] : open.line.messages) {
    const Result<OpenCommunicator*> communicator = find_communicator(open.line.comm);
    BANYAN_TRY(communicator.status());
    const Result<Call> call = check_call(**communicator, call_of(plain));
    BANYAN_TRY(call.status());
    open.items.push_back({open.line.comm, nullptr, *call, plain});
  }
  open.line.comm = nullptr;
  open.line.messages.clear();
  return {};
}

Status run_open_line(CallGroup& open) {
  const Pinned inside(open.line.comm);
  const Result<OpenCommunicator*> communicator = find_communicator(open.line.comm);
  BANYAN_TRY(communicator.status());
  BANYAN_TRY(check_usable(**communicator));
  Membership* membership = (*communicator)->membership.get();
  return with_memory({&membership, 1}, [&]() -> Status {
    size_t done = 0;
    BANYAN_TRY(run_line(**communicator, open.line, done));
    auto& messages = open.line.messages;
    messages.erase(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(done));
    return unfold(open);
  });
}

Status run_group(CallGroup& open) {
  if (!open.line.messages.empty()) BANYAN_TRY(run_open_line(open));
  std::vector<Item>& items = open.items;
  for (Item& item : items) BANYAN_TRY(resolve(item));
  try {
    return run_resolved(items);
  } catch (const std::bad_alloc&) {
    Status status;
    for (const Item& item : items) status = run_out_of_memory(item.membership());
    return status;
  }
}

// Finds what an error of the open group is on: where a call went wrong, or the only communicator.
// Null where it may be on several.
banyan_comm_t communicator_of_group() noexcept {
  const CallGroup& open = group();
  if (!open.failed.ok()) return open.failed_on;
  if (!open.line.messages.empty()) return open.line.comm;
  const auto elsewhere = [&](const Item& item) { return item.comm != open.items.front().comm; };
  const bool one =
      !open.items.empty() && std::none_of(open.items.begin(), open.items.end(), elsewhere);
  return one ? open.items.front().comm : nullptr;
}

void leave_group(std::vector<Item>& items) noexcept {
  for (const Item& item : items) {
    void* found = process().requests.find(place_of(item.request_handle));
    if (found != nullptr) static_cast<OpenRequest*>(found)->grouped = false;
  }
}

// The next line of this thread needs no memory of its own.
void keep_room(std::vector<MessageLine::Message>& ended) {
  constexpr size_t kMost = 1024;  // 64 KiB
  std::vector<MessageLine::Message>& next = group().line.messages;
  if (ended.capacity() > kMost || ended.capacity() <= next.capacity()) return;
  ended.clear();
  next.swap(ended);
}

// Those that a failure has kept from starting.
void refuse_requests(std::vector<Item>& items) {
  for (const Item& item : items) {
    void* found = process().requests.find(place_of(item.request_handle));
    if (found == nullptr) continue;
    auto& request = *static_cast<OpenRequest*>(found);
    Failure& failure = request.communicator->membership->failure();
    if (failure.failed() && request.state != OpenRequest::State::kRunning)
      refuse_request(request, failure.status());
  }
}

}  // namespace

bool takes_known(const OpenCommunicator& communicator) noexcept {
  return !in_group() && !communicator.finalized.load() && communicator.membership->at_rest() &&
         !communicator.membership->failure().failed();
}

QuickCall* begin_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept {
  if (communicator == nullptr || !takes_known(*communicator)) return nullptr;
  const KnownCalls::Place* place = communicator->known.find(plain);
  if (place == nullptr || place->known.quick == nullptr) return nullptr;
  QuickCall& quick = *place->known.quick;
  communicator->membership->begin(quick, plain.send, plain.recv);
  return &quick;
}

bool join_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept {
  if (communicator == nullptr || !in_group() || communicator->finalized.load() ||
      communicator->membership->failure().failed())
    return false;
  CallGroup& open = group();
  if (!open.items.empty()) return false;
  const KnownCalls::Place* place = open.line.place_for(*communicator, plain);
  if (place == nullptr) return false;
  try {
    open.line.messages.push_back({plain, place});
  } catch (const std::bad_alloc&) {
    return false;  // which is found again, and told
  }
  open.line.comm = communicator->handle;
  return true;
}

Status check_usable(const OpenCommunicator& communicator) {
  if (communicator.membership->failure().failed())
    return communicator.membership->failure().status();
  if (communicator.finalized.load())
    return {Code::kInvalidUsage, "the communicator is finalized: no call after finalize"};
  return {};
}

Status run_out_of_memory(Membership& membership) {
  membership.take_baton();
  Status status = membership.give_up("out of memory");
  membership.engine().cancel();
  return status;
}

Status drive_through(std::span<Membership* const> memberships,
                     std::span<Operation* const> operations) {
  return with_memory(memberships, [&] { return drive(memberships, operations); });
}

Status run_now(OpenCommunicator& communicator, const Call& call) {
  Membership* membership = communicator.membership.get();
  return with_memory({&membership, 1}, [&] {
    membership->take_baton();
    return run_plan(*membership, membership->plan(call), call);
  });
}

namespace {

// Why a call failed, for who looks at the log and not at banyan_last_error().
Status told(const Membership& membership, const Status& status) {
  if (!status.ok())
    BANYAN_LOG(membership.settings().log, Subsystem::kCall, LogLevel::kInfo, "{}: {}",
               describe(status.code()), status.message());
  return status;
}

Status run_usable(OpenCommunicator& communicator, const banyan_call_t& given,
                  const PlainCall* plain) {
  Membership& membership = *communicator.membership;
  if (plain != nullptr && !in_group()) {
    const KnownCalls::Place* place = communicator.known.find(*plain);
    if (place != nullptr) return run_known(membership, place->known, *plain);
  }
  const Result<Call> call = check_call(communicator, given);
  if (!call.ok()) return told(membership, call.status());
  if (in_group()) return join_group(communicator, *call, nullptr, plain);
  const Problem& problem = call->problem;
  if (is_message(problem.collective) && problem.root == membership.rank())
    return {Code::kInvalidUsage,
            fmt::format("peer {} is this rank itself: a message to oneself needs a group",
                        problem.root)};
  Status status = told(membership, run_now(communicator, *call));
  if (status.ok() && plain != nullptr) remember(communicator, *plain, *call);
  return status;
}

}  // namespace

Status run_call(banyan_comm_t handle, const banyan_call_t& given, const PlainCall* plain) {
  const Result<OpenCommunicator*> communicator = find_communicator(handle);
  BANYAN_TRY(communicator.status());
  BANYAN_TRY(check_usable(**communicator));
  Membership* membership = (*communicator)->membership.get();
  return with_memory({&membership, 1}, [&] { return run_usable(**communicator, given, plain); });
}

bool in_group() {
  return group_depth > 0;
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
  Membership* membership = communicator.membership.get();
  return with_memory({&membership, 1}, [&]() -> Status {
    BANYAN_TRY(unfold(group()));
    group().items.push_back({communicator.handle, request, call,
                             plain != nullptr ? std::optional(*plain) : std::nullopt});
    return {};
  });
}

void refuse_request(OpenRequest& request, const Status& why) {
  request.result = why;
  request.state = OpenRequest::State::kDone;
}

Status start_request(OpenRequest& request) {
  OpenCommunicator& communicator = *request.communicator;
  Membership* membership = communicator.membership.get();
  membership->take_baton();
  Status status = with_memory({&membership, 1}, [&]() -> Status {
    const Result<Operation*> operation = membership->start(request.plan, request.call);
    BANYAN_TRY(operation.status());
    request.operation = *operation;
    request.state = OpenRequest::State::kRunning;
    const Result<bool> moved = membership->turn();  // the first messages leave with the start
    if (!moved.ok()) membership->engine().cancel();
    return {};
  });
  membership->leave_baton();
  if (!status.ok()) refuse_request(request, status);
  return status;
}

void settle_request(OpenRequest& request) {
  Membership& membership = *request.communicator->membership;
  request.result = membership.failure().failed() ? membership.failure().status() : Status();
  membership.finish(request.operation);
  request.operation = nullptr;
  request.state = OpenRequest::State::kDone;
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
    if (!status.ok()) banyan::refuse_requests(open.items);
    banyan::leave_group(open.items);
    banyan::keep_room(open.line.messages);
    return status;
  });
}
