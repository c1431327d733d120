// A rank's end of a rendezvous: finds it, joins, and takes part in its rounds.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

#include "src/bootstrap/handshake_dial.h"
#include "src/bootstrap/host_addresses.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/rendezvous_socket.h"

namespace banyan {
namespace {

using std::chrono::milliseconds;

// The rendezvous gives the verdict at the deadline; a rank waits a little longer for it.
constexpr auto kFallback = milliseconds(300);
constexpr auto kBetweenRounds = milliseconds(20);
// How long a listener may take to say something before the next candidate is tried.
constexpr auto kPatience = milliseconds(300);
constexpr auto kPatienceMost = milliseconds(2000);

// What whoever has an id says: it belongs to these ranks only, whenever it comes.
constexpr uint64_t kAlwaysThere = UINT64_MAX;

TimePoint later(TimePoint when, milliseconds by) {
  return when > TimePoint::max() - by ? TimePoint::max() : when + by;
}

uint64_t whole_ms(Clock::duration time) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, std::chrono::duration_cast<milliseconds>(time).count()));
}

uint64_t remaining_ms(TimePoint deadline) {
  return deadline == TimePoint::max() ? UINT64_MAX : whole_ms(deadline - Clock::now());
}

class RendezvousExchange : public Exchange {
 public:
  RendezvousExchange(const JoinOptions& options, const Address& address, FrameSocket socket,
                     const Session& session)
      : rank_(options.rank),
        size_(options.size),
        address_(address),
        key_(options.key),
        of_one_user_(!options.key_is_private && address.loopback()),
        socket_(std::move(socket)),
        session_(session),
        watch_(options.watch) {}
  ~RendezvousExchange() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       TimePoint deadline) override;
  std::optional<Key> key() const override { return key_; }
  std::optional<Address> met_by() const override { return own_end_of(socket_.descriptor()); }
  bool of_one_user() const override { return of_one_user_; }
  std::vector<int> failure_descriptors() const override;
  Status failure() override;
  bool give_up(const Status& why) override;

  // All ranks are there. kBusy: these are other ranks, whose rendezvous is about to end.
  Status await_ready(TimePoint deadline);

 private:
  // The next frame, which is `type` or `part` and of this round. A verdict is an error.
  Result<Frame> receive(FrameType type, FrameType part, TimePoint deadline);
  // A frame, opened; nothing yet; or what ended the exchange.
  Result<std::optional<Frame>> read();
  Result<std::vector<Bytes>> round(std::span<const std::byte> mine, TimePoint deadline);

  int rank_;
  int size_;
  Address address_;
  Key key_;  // of the members once they are ready
  bool of_one_user_;
  FrameSocket socket_;
  Session session_;
  Watch watch_;
  uint32_t round_ = 0;
  Status failed_;
  bool silent_ = false;  // the other end has gone, which matters only if it is needed again
};

RendezvousExchange::~RendezvousExchange() {
  try {
    if (failed_.ok()) (void)socket_.write(session_.seal(FrameType::kLeave, 0, {}));
  } catch (const std::bad_alloc&) {
    return;  // the end of the connection says as much
  }
}

Status RendezvousExchange::await_ready(TimePoint deadline) {
  const auto frame = receive(FrameType::kReady, FrameType::kLeave, deadline);
  if (!frame.ok()) {
    failed_ = frame.status();
  } else if (frame->header.type == FrameType::kLeave) {
    failed_ = {Code::kBusy, "earlier ranks have failed to meet there, and it is about to end"};
  } else if (const auto nonce = parse_nonce(frame->payload()); nonce.ok()) {
    key_ = derive_key(key_, "members", *nonce);
  } else {
    failed_ = nonce.status();
  }
  return failed_;
}

Result<std::optional<Frame>> RendezvousExchange::read() {
  auto frame = socket_.read(kPayloadMost);
  if (!frame.ok()) {
    silent_ = true;
    return Status(Code::kPeerLost,
                  fmt::format("the process that holds the rendezvous at {} (rank 0, or where the "
                              "unique id was made) has ended or left: {}",
                              address_.text(), frame.status().message()));
  }
  if (!frame->has_value()) return frame;
  BANYAN_TRY(session_.open(**frame));
  if ((*frame)->header.type != FrameType::kVerdict) return frame;
  const auto verdict = parse_verdict((*frame)->payload());
  return verdict.ok() ? verdict->status : verdict.status();
}

Result<Frame> RendezvousExchange::receive(FrameType type, FrameType part, TimePoint deadline) {
  while (true) {
    auto frame = read();
    if (!frame.ok()) return frame.status();
    if (frame->has_value()) {
      const FrameHeader& header = (*frame)->header;
      if ((header.type != type && header.type != part) || header.epoch != round_) {
        return Status(Code::kCorrupt, fmt::format("the rendezvous at {} sent a frame that does not "
                                                  "belong there",
                                                  address_.text()));
      }
      return std::move(**frame);
    }
    const short events = static_cast<short>(socket_.all_sent() ? POLLIN : POLLIN | POLLOUT);
    const auto ready =
        wait_or_news(watch_, socket_.descriptor(), events, later(deadline, kFallback));
    if (!ready.ok()) return ready.status();
    if (!*ready) {
      return Status(Code::kTimeout, fmt::format("the rendezvous at {} has not answered rank {} "
                                                "within the time limit",
                                                address_.text(), rank_));
    }
    BANYAN_TRY(socket_.flush());
  }
}

Result<std::vector<Bytes>> RendezvousExchange::round(std::span<const std::byte> mine,
                                                     TimePoint deadline) {
  // A failed send says less than what can still be read.
  (void)socket_.write(session_.seal(FrameType::kContribution, round_, mine));
  Bytes all;
  while (true) {
    const auto frame = receive(FrameType::kResult, FrameType::kResultPart, deadline);
    if (!frame.ok()) return frame.status();
    const auto part = frame->payload();
    if (all.size() + part.size() > result_most(size_)) {
      return Status(Code::kCorrupt, "the rendezvous sent more than all ranks can have given");
    }
    all.insert(all.end(), part.begin(), part.end());
    if (frame->header.type == FrameType::kResult) break;
  }
  ++round_;
  return parse_result(all, size_);
}

Result<std::vector<Bytes>> RendezvousExchange::allgather(std::span<const std::byte> mine,
                                                         TimePoint deadline) {
  if (!failed_.ok()) return failed_;
  if (mine.size() > kExchangeMost) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("a rank can exchange {} bytes at once, not {}", kExchangeMost, mine.size()));
  }
  auto all = round(mine, deadline);
  if (all.ok()) return all;
  // What is watched explains why others have gone, not the other way round.
  const Status watched = watch_.look();
  failed_ = watched.ok() ? all.status() : watched;
  return failed_;
}

std::vector<int> RendezvousExchange::failure_descriptors() const {
  std::vector<int> descriptors;
  if (!silent_) descriptors.push_back(socket_.descriptor());
  if (watch_.descriptor >= 0) descriptors.push_back(watch_.descriptor);
  return descriptors;
}

Status RendezvousExchange::failure() {
  if (!failed_.ok()) return failed_;
  failed_ = watch_.look();
  if (!failed_.ok() || silent_) return failed_;
  const auto frame = read();
  if (!frame.ok()) {
    // Rank 0 may have everything it wants and be gone before others have. If it was lost, its own
    // links tell.
    if (!silent_) failed_ = frame.status();
  } else if (frame->has_value()) {
    failed_ = Status(Code::kCorrupt, "the rendezvous spoke out of turn");
  }
  return failed_;
}

// The verdict comes back when all others have been told. Only then may this process end: it may be
// the one that holds the rendezvous.
bool RendezvousExchange::give_up(const Status& why) {
  if (!failed_.ok()) return true;  // they hear of that
  failed_ = why;
  (void)socket_.write(session_.seal(FrameType::kGiveUp, 0, encode_verdict(why)));
  const TimePoint limit = later(Clock::now(), kFallback);
  while (Clock::now() < limit && read().ok()) {
    const short events = static_cast<short>(socket_.all_sent() ? POLLIN : POLLIN | POLLOUT);
    (void)wait_for(socket_.descriptor(), events, limit);
    if (!socket_.flush().ok()) break;
  }
  return true;
}

// One look at one candidate.
struct Attempt {
  enum class End { kJoined, kRefused, kClosed, kSilent, kUnreachable, kNoWay, kEnded };
  End end = End::kSilent;
  Status why;
  std::optional<Dial> dial;
};

Attempt attempt(const Address& address, const JoinOptions& options, TimePoint patience) {
  using End = Attempt::End;
  auto socket = begin_connect(address);
  if (!socket.ok()) {
    const bool for_ever = socket.status().code() == Code::kSystem;
    return {for_ever ? End::kNoWay : End::kUnreachable, socket.status(), {}};
  }
  const Joiner joiner{
      .rank = options.rank,
      .size = options.size,
      .remaining_ms = remaining_ms(options.deadline),
      .pid = static_cast<uint32_t>(::getpid()),
      .call = options.call,
      .waited_ms = options.must_listen ? kAlwaysThere : whole_ms(Clock::now() - options.begun)};
  auto dial =
      Dial::create(std::move(*socket), {.key = options.key, .epoch = 0, .server_rank = -1}, joiner);
  if (!dial.ok()) return {End::kUnreachable, dial.status(), {}};
  while (true) {
    const auto done = dial->advance();
    if (done.ok() && *done) return {End::kJoined, {}, std::move(*dial)};
    if (!done.ok()) {
      const End end = dial->refused()                         ? End::kRefused
                      : done.status().code() == Code::kSystem ? End::kUnreachable
                                                              : End::kClosed;
      return {end, done.status(), {}};
    }
    // Once it has shown that it knows the key there is nobody better to wait for.
    const TimePoint until = dial->answered() ? later(options.deadline, kFallback)
                                             : std::min(patience, options.deadline);
    const auto ready = wait_or_news(options.watch, dial->descriptor(), dial->events(), until);
    if (!ready.ok()) return {End::kEnded, ready.status(), {}};
    if (!*ready) {
      return {End::kSilent,
              {Code::kTimeout, "it does not answer as a rendezvous of these ranks does"},
              {}};
    }
  }
}

// Says so where this host has that address, too.
std::string own_address(const Address& address) {
  const std::string interface = address.loopback() ? "" : interface_with(address);
  if (interface.empty()) return {};
  return fmt::format("; {} is an address of this host ({}), and leads from here to no other",
                     address.host(), interface);
}

Status used_up(const Address& address) {
  return {Code::kInvalidUsage,
          fmt::format("nothing listens at {} any more: the unique id was used before, its time has "
                      "expired, or the process that made it has ended; one id serves one init{}",
                      address.text(), own_address(address))};
}

Status no_way(const JoinOptions& options, const Status& why) {
  return {why.code(), fmt::format("rank {} cannot reach where the ranks meet: {}", options.rank,
                                  why.message())};
}

Status not_found(const JoinOptions& options, const Address& address, const Status& why) {
  return {
      Code::kTimeout,
      fmt::format("rank {} found no rendezvous of these ranks within the time limit; rank 0 has "
                  "not arrived, or another secret or address is set there; last tried {}: {}{}",
                  options.rank, address.text(), why.message(), own_address(address))};
}

}  // namespace

Result<std::unique_ptr<Exchange>> join_rendezvous(const JoinOptions& options, const Log& log) {
  if (options.candidates.empty()) {
    return Status(Code::kInternal, "no address to meet at");
  }
  auto patience = options.candidates.size() > 1 ? kPatience : kPatienceMost;
  milliseconds pause(1);
  while (true) {
    BANYAN_TRY(options.watch.look());
    Address address;
    Status why;
    size_t hopeless = 0;
    for (const Address& candidate : options.candidates) {
      address = candidate;
      Attempt tried = attempt(candidate, options, later(Clock::now(), patience));
      if (tried.end == Attempt::End::kJoined) {
        auto exchange = std::make_unique<RendezvousExchange>(
            options, candidate, tried.dial->take_socket(), tried.dial->session());
        if (options.arrived) BANYAN_TRY(options.arrived());
        try {
          tried.why = exchange->await_ready(options.deadline);
        } catch (const std::bad_alloc&) {
          tried.why = {Code::kSystem, "out of memory"};
          (void)exchange->give_up(tried.why);
        }
        if (tried.why.ok()) return std::unique_ptr<Exchange>(std::move(exchange));
        if (tried.why.code() != Code::kBusy || options.asks) return tried.why;
      }
      BANYAN_LOG(log, Subsystem::kInit, LogLevel::kTrace, "rank {}: no rendezvous at {}: {}",
                 options.rank, candidate.text(), tried.why.message());
      if (tried.end == Attempt::End::kEnded) return tried.why;
      const bool used = tried.end == Attempt::End::kRefused && options.must_listen;
      if ((used || tried.end == Attempt::End::kNoWay) && ++hopeless == options.candidates.size())
        return used ? used_up(candidate) : no_way(options, tried.why);
      why = std::move(tried.why);
      if (Clock::now() >= options.deadline) return not_found(options, address, why);
    }
    // A connection that was closed may have had to make room: at first again at once.
    std::this_thread::sleep_until(std::min(later(Clock::now(), pause), options.deadline));
    pause = std::min<milliseconds>(2 * pause, kBetweenRounds);
    patience = std::min<milliseconds>(2 * patience, kPatienceMost);
    if (Clock::now() >= options.deadline) return not_found(options, address, why);
  }
}

}  // namespace banyan
