// The server's end of many connections.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/handshake_gate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "src/base/system_error.h"
#include "src/bootstrap/rendezvous_socket.h"

namespace banyan {
namespace {

using std::chrono::milliseconds;

constexpr auto kGrace = milliseconds(200);      // nobody who knows the key goes before that
constexpr auto kPause = milliseconds(10);       // of accepting, where nothing can be accepted
constexpr int kAtOnce = 16;                     // accepted before others are served
constexpr uint64_t kFirstConnection = 1 << 16;  // smaller ids are listeners

Descriptor spare_descriptor() {
  return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

struct Origin {
  bool local = false;  // AF_UNIX
  bool allowed = true;
  uint32_t pid = 0;
};

Origin origin_of(int socket) {
  Origin origin;
  int domain = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) {
    return origin;
  }
  origin.local = true;
  ucred credentials{};
  size = sizeof credentials;
  origin.allowed = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
                   credentials.uid == ::geteuid();
  origin.pid = static_cast<uint32_t>(credentials.pid);
  return origin;
}

}  // namespace

Result<Gate> Gate::create(std::vector<Descriptor> listeners, const HandshakeTerms& terms,
                          const Log& log, milliseconds patience) {
  Gate gate;
  gate.patience_ = patience;
  gate.epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!gate.epoll_.valid()) {
    return system_error("epoll_create1", errno);
  }
  gate.reserve_ = spare_descriptor();
  gate.terms_ = terms;
  gate.log_ = log;
  gate.next_id_ = kFirstConnection;
  gate.listeners_ = std::move(listeners);
  for (size_t i = 0; i < gate.listeners_.size(); ++i) {
    if (!gate.watch(gate.listeners_[i].get(), i, true)) {
      return system_error("epoll_ctl", errno);
    }
  }
  return gate;
}

bool Gate::watch(int descriptor, uint64_t id, bool on) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, descriptor, &event) == 0;
}

TimePoint Gate::next() const {
  TimePoint next = half_open_.empty() ? TimePoint::max() : half_open_.front().since + patience_;
  return paused_ ? std::min(next, resume_at_) : next;
}

void Gate::serve(std::vector<Admitted>& admitted) {
  if (!epoll_.valid()) return;
  if (paused_ && Clock::now() >= resume_at_) resume();
  std::array<epoll_event, 2 * kHalfOpenMost> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  // Who is half way in comes before who is new, so that newcomers push out nobody who has already
  // said more.
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 >= kFirstConnection) advance(events[i].data.u64, admitted);
  }
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 < kFirstConnection) accept_some(events[i].data.u64, admitted);
  }
  expire();
}

void Gate::accept_some(size_t listener, std::vector<Admitted>& admitted) {
  const int socket = listeners_[listener].get();
  for (int i = 0; i < kAtOnce && !paused_; ++i) {
    if (half_open_.size() >= kHalfOpenMost && !make_room({})) return pause();
    Descriptor accepted(::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.valid()) {
      start(std::move(accepted), admitted);
    } else if (errno == EMFILE || errno == ENFILE) {
      // Whoever has just come may be a rank that has yet to speak.
      if (make_room(kGrace)) continue;
      return half_open_.empty() ? refuse_one(socket) : pause();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
      return pause();  // no memory
    }
  }
}

void Gate::start(Descriptor socket, std::vector<Admitted>& admitted) {
  const Origin origin = origin_of(socket.get());
  auto handshake = ServerHandshake::create(terms_);
  if (!origin.allowed || !handshake.ok()) {
    ++refused_;
    return;
  }
  HalfOpen connection;
  if (!origin.local) {
    connection.from = peer_of(socket.get());
    send_at_once(socket.get());
  }
  connection.socket = FrameSocket(std::move(socket));
  connection.handshake = *handshake;
  connection.pid = origin.pid;
  connection.since = Clock::now();
  connection.id = next_id_++;
  // Often what it says first is already there.
  if (!advance(connection, admitted)) return;
  if (watch(connection.socket.descriptor(), connection.id, true)) {
    half_open_.push_back(std::move(connection));
  }
}

bool Gate::make_room(Clock::duration least_age) {
  const TimePoint now = Clock::now();
  const auto stranger = [now, least_age](const HalfOpen& connection) {
    return !connection.greeted && now - connection.since >= least_age;
  };
  const auto from_there = [this, &stranger](const HalfOpen& connection) {
    return std::count_if(half_open_.begin(), half_open_.end(),
                         [&connection, &stranger](const HalfOpen& other) {
                           return stranger(other) && other.from.ip == connection.from.ip;
                         });
  };
  auto victim = half_open_.end();
  for (auto place = half_open_.begin(); place != half_open_.end(); ++place) {
    if (!stranger(*place)) continue;
    if (victim == half_open_.end() || from_there(*place) > from_there(*victim)) victim = place;
  }
  if (victim == half_open_.end() && !half_open_.empty() &&
      now - half_open_.front().since > kGrace) {
    victim = half_open_.begin();
  }
  if (victim == half_open_.end()) return false;
  ++refused_;
  half_open_.erase(victim);
  return true;
}

bool Gate::advance(HalfOpen& connection, std::vector<Admitted>& admitted) {
  while (true) {
    const auto frame = connection.socket.read(kHandshakePayloadMost);
    if (!frame.ok()) {
      report(connection, frame.status());
      return false;
    }
    if (!frame->has_value()) return true;
    if (!connection.greeted) {
      auto challenge = connection.handshake.challenge(**frame);
      Status sent =
          challenge.ok() ? connection.socket.write(std::move(*challenge)) : challenge.status();
      if (!sent.ok()) {
        report(connection, sent);
        return false;
      }
      connection.greeted = true;
      continue;
    }
    const auto joiner = connection.handshake.admit(**frame);
    const Status welcomed =
        joiner.ok() ? connection.socket.write(connection.handshake.welcome()) : joiner.status();
    if (!welcomed.ok()) {
      report(connection, welcomed);
      return false;
    }
    (void)watch(connection.socket.descriptor(), connection.id, false);
    admitted.push_back({std::move(connection.socket), connection.handshake.session(), *joiner,
                        connection.from, connection.pid});
    return false;
  }
}

void Gate::advance(uint64_t id, std::vector<Admitted>& admitted) {
  const auto place = std::find_if(half_open_.begin(), half_open_.end(),
                                  [id](const HalfOpen& connection) { return connection.id == id; });
  if (place != half_open_.end() && !advance(*place, admitted)) half_open_.erase(place);
}

void Gate::expire() {
  const TimePoint now = Clock::now();
  while (!half_open_.empty() && now - half_open_.front().since >= patience_) {
    ++refused_;
    half_open_.pop_front();
  }
}

void Gate::pause() {
  for (size_t i = 0; i < listeners_.size(); ++i) (void)watch(listeners_[i].get(), i, false);
  paused_ = true;
  resume_at_ = Clock::now() + kPause;
}

void Gate::resume() {
  for (size_t i = 0; i < listeners_.size(); ++i) (void)watch(listeners_[i].get(), i, true);
  paused_ = false;
}

void Gate::report(const HalfOpen& connection, const Status& why) {
  ++refused_;
  if (why.code() == Code::kUnsupported) {
    const Bytes answer = other_version();
    (void)::send(connection.socket.descriptor(), answer.data(), answer.size(),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // One line, however many come.
  if (warned_ || why.code() == Code::kPeerLost) return;
  warned_ = true;
  BANYAN_LOG(
      log_, Subsystem::kNet, LogLevel::kWarn,
      "a connection from {} to where ranks meet was refused: {}; others will not be reported",
      connection.from.text(), why.message());
}

void Gate::refuse_one(int listener) {
  reserve_.close();
  Descriptor refused(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  refused.close();
  reserve_ = spare_descriptor();
  ++refused_;
  starved_ = true;
  if (!warned_) {
    warned_ = true;
    BANYAN_LOG(log_, Subsystem::kNet, LogLevel::kWarn,
               "no descriptors are left for the ranks that arrive: {}; raise the limit (ulimit -n)",
               std::generic_category().message(EMFILE));
  }
  pause();
}

void Gate::close() {
  if (!epoll_.valid()) return;
  // A listening socket that a forked process holds too would go on taking connections.
  for (const Descriptor& listener : listeners_) (void)::shutdown(listener.get(), SHUT_RDWR);
  listeners_.clear();
  half_open_.clear();
  paused_ = false;
  epoll_.close();
  if (refused_ > 0) {
    BANYAN_LOG(log_, Subsystem::kNet, LogLevel::kInfo,
               "{} connections of strangers were refused while ranks met", refused_);
  }
}

}  // namespace banyan
