// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "src/base/bell.h"
#include "src/base/thread.h"

namespace banyan {

Membership::Membership(Settings settings, Links links, VerdictBoard board, Bells bells,
                       std::vector<std::unique_ptr<Transport>> transports, std::vector<int> routes,
                       Medium medium, Hierarchy hierarchy)
    : settings_(std::move(settings)),
      medium_(medium),
      hierarchy_(std::move(hierarchy)),
      links_(std::move(links)),
      own_sockets_(links_.sockets),
      failure_(std::move(board)),
      monitor_(links_, failure_, settings_.log),
      bells_(std::move(bells)),
      worker_({settings_, links_, medium_, hierarchy_, measured(), failure_, monitor_, bells_},
              std::move(transports), std::move(routes)) {}

Membership::~Membership() {
  stop_.store(true);
  wanted_.store(true);
  open();
  wake_service();
  if (service_.joinable()) service_.join();
}

Status Membership::start_service() {
  if (service_.joinable()) return {};
  auto started = start_thread("watches the other ranks", [this] {
    open_.wait(false);
    serve();
  });
  if (started.ok()) service_ = std::move(*started);
  return started.status();
}

void Membership::open() {
  open_.store(true);
  open_.notify_all();
}

bool Membership::one_host() const {
  return std::all_of(links_.peers.begin(), links_.peers.end(),
                     [](const LinkPeer& peer) { return peer.same_host; });
}

std::string Membership::transport_names() const {
  std::string text;
  for (const auto& transport : transports())
    text += fmt::format("{}{}", text.empty() ? "" : ",", transport->name());
  return text.empty() ? "none" : text;
}

MessageTimes Membership::message_times() const {
  for (const auto& transport : transports())
    if (MessageTimes times = transport->message_times(); !times.messages.empty()) return times;
  return {};
}

void Membership::take_baton() {
  if (!left_) return;
  returns_.store(returns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!baton_.try_acquire()) {
    wanted_.store(true);
    wake_service();
    baton_.acquire();
    wanted_.store(false);
  }
  left_ = false;
}

void Membership::leave_baton() {
  if (left_ || !service_.joinable()) return;
  if (!worker_.busy() && (failure_.failed() || worker_.settled())) return;
  left_ = true;
  const uint64_t started = worker_.engine().started();
  after_start_.store(std::exchange(started_, started) != started, std::memory_order_relaxed);
  baton_.release();
  if (!alert_.exchange(true)) wake_service();
}

void Membership::abort() {
  monitor_.abort();
  wake_caller();
  wake_service();
}

void Membership::fail(const Verdict& verdict) {
  monitor_.report(verdict);
  wake_caller();
  wake_service();
}

void Membership::adopt(const Verdict& verdict) {
  monitor_.decide_alone(verdict);
  wake_caller();
  wake_service();
}

Watch Membership::watch() {
  return {bells_.caller.get(), [this] {
            quiet(bells_.caller);  // before the look, so that a failure after it rings again
            return failure_.failed() ? failure_.status() : Status();
          }};
}

}  // namespace banyan
