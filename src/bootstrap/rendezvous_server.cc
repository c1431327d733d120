// The server of one rendezvous.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/rendezvous_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/descriptor_room.h"
#include "src/base/system_error.h"

namespace banyan {
namespace {

// How long ranks that come after the verdict are still told.
constexpr auto kAfterwards = std::chrono::seconds(4);
constexpr uint64_t kNever = 1'000'000'000'000;  // milliseconds; longer is no limit

std::string origin_of(const Admitted& admitted) {
  return fmt::format("process {} at {}", admitted.joiner.pid, admitted.from.text());
}

}  // namespace

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::create(
    std::vector<Descriptor> listeners, const Key& key, TimePoint deadline, const Log& log) {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  auto gate = Gate::create(std::move(listeners), {.key = key, .epoch = 0, .server_rank = -1}, log);
  if (!gate.ok()) return gate.status();
  const auto nonce = random_key();
  if (!nonce.ok()) return nonce.status();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the gate
  if (!epoll.valid() || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, gate->descriptor(), &event) != 0) {
    return system_error("epoll", errno);
  }
  return std::unique_ptr<RendezvousServer>(
      new RendezvousServer(std::move(*gate), std::move(epoll), *nonce, deadline, log));
}

void RendezvousServer::run() {
  std::array<epoll_event, 256> events{};
  std::vector<Admitted> admitted;
  while (!over()) {
    const TimePoint next = std::min({gate_.next(), verdict_ ? end_ : deadline_, end_});
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                     next == TimePoint::max() ? -1 : milliseconds_until(next, 60'000));
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr != nullptr) serve(*static_cast<Member*>(events[i].data.ptr));
    }
    gate_.serve(admitted);
    for (Admitted& one : admitted) admit(std::move(one));
    admitted.clear();
    if (gate_.starved()) look_for_room();
    if (!verdict_ && Clock::now() >= deadline_) late();
  }
}

// Nobody else will ever get in: those who are here need not wait for the deadline to hear it.
void RendezvousServer::look_for_room() {
  if (verdict_ || ready_ || members_.empty()) return;
  const std::vector<bool>& present = roll_.present();
  const auto absent = static_cast<size_t>(std::count(present.begin(), present.end(), false));
  Status room = require_descriptors(
      absent, fmt::format("where the ranks meet (in the process of rank 0, or where the unique id "
                          "was made), letting {} more in",
                          absent));
  if (!room.ok()) decide(std::move(room));
}

bool RendezvousServer::over() const {
  const bool nobody = std::none_of(members_.begin(), members_.end(),
                                   [](const auto& member) { return member->here; });
  // A failure waits for those who have not heard of it.
  if (nobody && !members_.empty() && (verdict_ ? roll_.complete() : ready_)) return true;
  return Clock::now() >= end_ || (members_.empty() && Clock::now() >= deadline_);
}

// To a tenth of a second, since messages take their time.
bool RendezvousServer::began_after_verdict(const Joiner& joiner) const {
  constexpr auto kMargin = std::chrono::milliseconds(100);
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - decided_ - kMargin);
  return verdict_ && since.count() > 0 && joiner.waited_ms < static_cast<uint64_t>(since.count());
}

// To those who meet later.
void RendezvousServer::pass_on(Admitted admitted) {
  (void)admitted.socket.write(admitted.session.seal(FrameType::kLeave, 0, {}));
}

void RendezvousServer::admit(Admitted admitted) {
  const Joiner& joiner = admitted.joiner;
  const bool own = joiner.pid == static_cast<uint32_t>(::getpid());
  if (roll_.is_later_call(joiner)) {
    if (!verdict_)
      decide({Code::kPeerLost,
              fmt::format("rank {} gave up before all ranks were there", joiner.rank)});
    if (own) end_ = Clock::now();
    return pass_on(std::move(admitted));
  }
  if (began_after_verdict(joiner)) return pass_on(std::move(admitted));
  const Status entered = roll_.enter(joiner, origin_of(admitted));
  auto member = std::make_unique<Member>();
  member->socket = std::move(admitted.socket);
  member->session = admitted.session;
  member->rank = joiner.rank;
  member->own = own;
  members_.push_back(std::move(member));
  watch(*members_.back());
  if (joiner.remaining_ms < kNever) {
    deadline_ = std::min(deadline_, Clock::now() + std::chrono::milliseconds(joiner.remaining_ms));
  }
  if (verdict_) {
    tell(*members_.back());
  } else if (!entered.ok()) {
    decide(entered);
  } else if (roll_.complete()) {
    ready();
  }
}

void RendezvousServer::ready() {
  gate_.close();
  ready_ = true;
  std::sort(members_.begin(), members_.end(),
            [](const auto& a, const auto& b) { return a->rank < b->rank; });
  contributions_.resize(members_.size());
  for (const auto& member : members_) {
    const Status sent = member->socket.write(member->session.seal(FrameType::kReady, 0, nonce_));
    if (!sent.ok()) return gone(*member, sent);
    watch(*member);
  }
}

void RendezvousServer::serve(Member& member) {
  if (!member.here) return;
  const Status sent = member.socket.flush();
  if (!sent.ok()) return gone(member, sent);
  while (member.here) {
    const auto frame = member.socket.read(kPayloadMost);
    if (!frame.ok()) return gone(member, frame.status());
    if (!frame->has_value()) break;
    // After the verdict nothing counts but that a member goes.
    const Status taken = verdict_ ? Status() : take(member, **frame);
    if (!taken.ok()) return gone(member, taken);
  }
  if (member.here) pump(member);
}

Status RendezvousServer::take(Member& member, const Frame& frame) {
  BANYAN_TRY(member.session.open(frame));
  if (frame.header.rank == member.rank && ready_) {
    if (frame.header.type == FrameType::kContribution) return contribute(member, frame);
    if (frame.header.type == FrameType::kGiveUp) {
      const auto said = parse_verdict(frame.payload());
      BANYAN_TRY(said.status());
      decide(said_by(member.rank, said->status));
      return {};
    }
    if (frame.header.type == FrameType::kLeave && frame.header.length == 0) {
      member.left = true;
      if (given_ > 0) {
        decide({Code::kPeerLost,
                fmt::format("rank {} gave up before all ranks were connected", member.rank)});
      }
      return {};
    }
  }
  return {Code::kCorrupt, "a frame that does not belong there"};
}

Status RendezvousServer::contribute(Member& member, const Frame& frame) {
  if (member.gave || member.left || frame.header.epoch != round_ ||
      member.result_at != result_.size()) {
    return {Code::kCorrupt, "a contribution to another round"};
  }
  const auto payload = frame.payload();
  contributions_[static_cast<size_t>(member.rank)].assign(payload.begin(), payload.end());
  member.gave = true;
  ++given_;
  const auto leaver =
      std::find_if(members_.begin(), members_.end(), [](const auto& other) { return other->left; });
  if (leaver != members_.end()) {
    decide({Code::kPeerLost,
            fmt::format("rank {} gave up before all ranks were connected", (*leaver)->rank)});
  } else if (given_ == members_.size()) {
    finish_round();
  }
  return {};
}

void RendezvousServer::finish_round() {
  result_ = encode_result(contributions_);
  result_round_ = round_++;
  given_ = 0;
  for (const auto& member : members_) {
    member->gave = false;
    member->result_at = 0;
  }
  for_each_own_last([this](Member& member) { pump(member); });
}

// Sends on what the socket takes of the last result.
void RendezvousServer::pump(Member& member) {
  while (member.here && !verdict_ && member.socket.all_sent() &&
         member.result_at < result_.size()) {
    const size_t part = std::min(kPayloadMost, result_.size() - member.result_at);
    const bool last = member.result_at + part == result_.size();
    const Status sent = member.socket.write(
        member.session.seal(last ? FrameType::kResult : FrameType::kResultPart, result_round_,
                            std::span(result_).subspan(member.result_at, part)));
    member.result_at += part;
    if (!sent.ok()) return gone(member, sent);
  }
  if (member.here) watch(member);
}

void RendezvousServer::gone(Member& member, const Status& why) {
  if (!member.here) return;
  member.here = false;
  member.socket = FrameSocket();
  if (member.left || verdict_) return;
  decide({Code::kPeerLost, fmt::format("rank {} ({}) was lost while the ranks met: {}", member.rank,
                                       roll_.origin(member.rank), why.message())});
}

void RendezvousServer::late() {
  if (members_.empty()) return;  // nobody to tell
  if (!ready_) {
    decide({Code::kTimeout, fmt::format("{} not arrived within the time limit",
                                        absent_ranks_have(roll_.present()))});
  } else if (given_ > 0) {
    std::vector<bool> gave;
    for (const auto& member : members_) gave.push_back(member->gave);
    decide({Code::kTimeout, fmt::format("{} not got ready to connect within the time limit",
                                        absent_ranks_have(gave))});
  } else {
    // They are busy with each other and have limits of their own.
    deadline_ = TimePoint::max();
    end_ = Clock::now() + kAfterwards;
  }
}

void RendezvousServer::decide(Status verdict) {
  BANYAN_LOG(log_, Subsystem::kInit, LogLevel::kInfo, "the ranks do not meet: {}",
             verdict.message());
  verdict_ = std::move(verdict);
  decided_ = Clock::now();
  end_ = Clock::now() + kAfterwards;
  for_each_own_last([this](Member& member) { tell(member); });
}

// A rank of this process may end it as soon as it knows.
void RendezvousServer::for_each_own_last(const std::function<void(Member&)>& use) {
  for (const bool own : {false, true}) {
    for (const auto& member : members_) {
      if (member->own == own) use(*member);
    }
  }
}

void RendezvousServer::tell(Member& member) {
  if (!member.here) return;
  const Status sent =
      member.socket.write(member.session.seal(FrameType::kVerdict, 0, encode_verdict(*verdict_)));
  if (!sent.ok()) return gone(member, sent);
  watch(member);
}

void RendezvousServer::watch(Member& member) {
  const uint32_t wanted = member.socket.all_sent() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  if (wanted == member.watched) return;
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = &member;
  (void)::epoll_ctl(epoll_.get(), member.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
                    member.socket.descriptor(), &event);
  member.watched = wanted;
}

}  // namespace banyan
