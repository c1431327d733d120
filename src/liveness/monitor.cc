// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/monitor.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/bytes.h"
#include "src/base/failure_code.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr size_t kFrameTextBytes = 484;
constexpr double kPatienceSeconds = 1;             // with the first who should decide
constexpr double kPatienceWithTheNextSeconds = 3;  // it loses patience with the first one, too
static_assert(Monitor::kMostPatienceSeconds >= kPatienceSeconds + kPatienceWithTheNextSeconds);
constexpr size_t kSignedBytes = kFrameBytes - sizeof(Mac);

// Tells whether this rank is the one that watches the process. A process that ends shows at its
// link, unless children of it hold that; then it is enough that one rank sees it and tells the
// others. That is the one before it, or any that sees it without being seen.
bool watches(const Links& links, int rank) {
  const LinkPeer& peer = links.peers[static_cast<size_t>(rank)];
  if (!peer.same_pid_namespace) return true;
  for (int next = (links.rank + 1) % links.size; next != links.rank;
       next = (next + 1) % links.size) {
    const LinkPeer& other = links.peers[static_cast<size_t>(next)];
    if (other.same_pid_namespace && !other.same_process) return next == rank;
  }
  return false;
}

// Where it cannot be had, the end of the link must do.
Descriptor process_of(const LinkPeer& peer) {
  if (peer.pid <= 0 || peer.pid == ::getpid()) return {};
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

Mac mac_of(std::span<const std::byte> signed_bytes, const Key& key) {
  return authenticate(key, "frame", signed_bytes);
}

}  // namespace

Key link_key(const Key& key, int from, int to) {
  Writer writer;
  writer.put(static_cast<int32_t>(from));
  writer.put(static_cast<int32_t>(to));
  return derive_key(key, "link", writer.bytes());
}

FrameBytes encode_frame(const LinkFrame& frame, const Key& key, uint64_t counter) {
  const size_t length = std::min(frame.verdict.text.size(), kFrameTextBytes);
  Writer writer;
  writer.put(static_cast<uint32_t>(frame.type));
  writer.put(static_cast<uint32_t>(frame.verdict.code));
  writer.put(static_cast<int32_t>(frame.verdict.failed_rank));
  writer.put(frame.verdict.spares_calls_before);
  writer.put(static_cast<uint32_t>(length));
  writer.put(counter);
  writer.put_raw(std::as_bytes(std::span(frame.verdict.text)).first(length));

  FrameBytes bytes{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin());
  const Mac mac = mac_of(std::span(bytes).first(kSignedBytes), key);
  std::copy(mac.begin(), mac.end(), bytes.begin() + kSignedBytes);
  return bytes;
}

std::optional<LinkFrame> decode_frame(std::span<const std::byte, kFrameBytes> bytes, const Key& key,
                                      uint64_t counter, int ranks) {
  Mac mac;
  std::copy(bytes.begin() + kSignedBytes, bytes.end(), mac.begin());
  if (!equal(mac, mac_of(bytes.first(kSignedBytes), key))) return std::nullopt;

  Reader reader(bytes.first(kSignedBytes));
  const auto type = reader.get<uint32_t>();
  const auto code = reader.get<uint32_t>();
  const auto failed_rank = reader.get<int32_t>();
  const auto spares_calls_before = reader.get<uint32_t>();
  const auto length = reader.get<uint32_t>();
  const auto sent_counter = reader.get<uint64_t>();
  if (type < 1 || type > 3 || length > kFrameTextBytes || sent_counter != counter)
    return std::nullopt;
  if (failed_rank < -1 || failed_rank >= ranks) return std::nullopt;
  if (type != static_cast<uint32_t>(LinkFrameType::kGoodbye) && !is_failure_code(code))
    return std::nullopt;

  LinkFrame frame;
  frame.type = static_cast<LinkFrameType>(type);
  frame.verdict.code = static_cast<Code>(code);
  frame.verdict.failed_rank = failed_rank;
  frame.verdict.spares_calls_before = spares_calls_before;
  const auto text = reader.get_raw(length);
  frame.verdict.text = printable({reinterpret_cast<const char*>(text.data()), text.size()});
  return frame;
}

Monitor::Monitor(Links& links, Failure& failure, const Log& log)
    : links_(links), failure_(failure), log_(log), peers_(static_cast<size_t>(links.size)) {
  for (int rank = 0; rank < links.size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    one_host_ = one_host_ && (rank == links.rank || links.peers[index].same_host);
    Peer& peer = peers_[index];
    peer.open = links.sockets[index].valid();
    if (watches(links, rank)) peer.process = process_of(links.peers[index]);
    peer.key_in = link_key(links.key, rank, links.rank);
    peer.key_out = link_key(links.key, links.rank, rank);
  }
}

void Monitor::send(int rank, const LinkFrame& frame) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (!peer.open) return;
  const FrameBytes bytes = encode_frame(frame, peer.key_out, peer.frames_out++);
  // A link that is too full for one frame belongs to a peer that has not looked for thousands of
  // them; it finds the verdict by the end of file.
  const ssize_t sent = ::send(links_.sockets[static_cast<size_t>(rank)].get(), bytes.data(),
                              bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size()))
    // Who has said goodbye may have gone.
    BANYAN_LOG(
        log_, Subsystem::kFault, peer.said_goodbye ? LogLevel::kTrace : LogLevel::kInfo,
        "rank {} could not be told: {}", rank,
        sent < 0 ? std::strerror(errno) : "its link is full");  // NOLINT(concurrency-mt-unsafe)
}

void Monitor::broadcast(const LinkFrame& frame) {
  for (int rank = 0; rank < links_.size; ++rank)
    if (rank != links_.rank) send(rank, frame);
}

// The lowest rank that is connected and has not been silent for too long, this one included.
int Monitor::decider() const {
  for (int rank = 0; rank < links_.rank; ++rank) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.open && !peer.silent) return rank;
  }
  return links_.rank;
}

bool Monitor::report(const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  if (failure_.failed() || proposed_) return false;
  BANYAN_LOG(log_, Subsystem::kFault, LogLevel::kInfo, "{}: {}", describe(verdict.code),
             verdict.text);
  propose(verdict);
  return true;
}

void Monitor::propose(const Verdict& verdict) {
  if (!proposed_) {
    proposed_ = verdict;
    patience_ends_ = deadline_after(kPatienceSeconds);
  }
  settle();
}

// Whoever succeeds a decider that died or is silent hears everybody first: one of them may have its
// verdict.
void Monitor::settle() {
  if (!proposed_ || failure_.board().decided()) return;
  const int to = decider();
  if (!one_host_ && to != links_.rank) {
    if (proposed_to_ == to) return;
    proposed_to_ = to;
    send(to, {LinkFrameType::kPropose, *proposed_});
    return;
  }
  const bool all_heard = std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return !peer.open || peer.proposed || peer.silent;
  });
  if (!one_host_ && succeeds_ && !all_heard) return;
  decide(*proposed_);
}

void Monitor::decide(const Verdict& verdict) {
  patience_ends_ = TimePoint::max();
  if (failure_.decide(verdict)) broadcast({LinkFrameType::kFinal, verdict});
}

void Monitor::decide_alone(const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  if (!failure_.board().decided()) decide(proposed_.value_or(verdict));
}

// The maker of the verdict may have died before it had told all; a rank of this host, too, may have
// put it on the board.
void Monitor::pass_on() {
  if (!succeeds_ || passed_on_ || decider() != links_.rank) return;
  passed_on_ = true;
  broadcast({LinkFrameType::kFinal, failure_.board().read()});
}

TimePoint Monitor::patience_ends() const {
  const std::lock_guard lock(mutex_);
  return failure_.board().decided() ? TimePoint::max() : patience_ends_;
}

void Monitor::lose_patience(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!proposed_ || now < patience_ends_ || failure_.board().decided()) return;
  const int silent = decider();
  if (silent == links_.rank) {  // it has waited for what the others say
    decide(*proposed_);
    return;
  }
  BANYAN_LOG(log_, Subsystem::kFault, LogLevel::kInfo, "rank {} is silent: the next one decides",
             silent);
  peers_[static_cast<size_t>(silent)].silent = true;
  succeed();
}

// The decider is another one from now on.
void Monitor::succeed() {
  succeeds_ = true;
  if (proposed_) patience_ends_ = deadline_after(kPatienceWithTheNextSeconds);
  if (!failure_.board().decided()) settle();
}

void Monitor::abort() {
  const Verdict verdict{Code::kPeerLost, links_.rank,
                        fmt::format("rank {} aborted the communicator", links_.rank)};
  const std::lock_guard lock(mutex_);
  if (failure_.abort()) propose(verdict);
}

void Monitor::say_goodbye() {
  const std::lock_guard lock(mutex_);
  broadcast({LinkFrameType::kGoodbye, {}});
}

void Monitor::add_to(std::vector<pollfd>& descriptors) const {
  const std::lock_guard lock(mutex_);
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].open) continue;
    descriptors.push_back({links_.sockets[rank].get(), POLLIN | POLLRDHUP, 0});
    if (peers_[rank].process.valid())
      descriptors.push_back({peers_[rank].process.get(), POLLIN, 0});
  }
}

void Monitor::handle(std::span<const pollfd> ready) {
  const std::lock_guard lock(mutex_);
  for (const pollfd& entry : ready) {
    if (entry.revents == 0) continue;
    for (int rank = 0; rank < links_.size; ++rank) {
      const bool ended = peers_[static_cast<size_t>(rank)].process.get() == entry.fd;
      if (ended || links_.sockets[static_cast<size_t>(rank)].get() == entry.fd) receive(rank);
      // Its children may hold its end of the link.
      if (ended && peers_[static_cast<size_t>(rank)].open) lost(rank, "its process ended");
    }
  }
}

void Monitor::receive(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  while (peer.open) {
    const ssize_t got =
        recv(links_.sockets[static_cast<size_t>(rank)].get(), peer.partial.data() + peer.received,
             kFrameBytes - peer.received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      lost(rank, got == 0 ? "its connection ended"
                          : std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
      return;
    }
    peer.received += static_cast<size_t>(got);
    if (peer.received < kFrameBytes) continue;
    peer.received = 0;
    const auto frame = decode_frame(peer.partial, peer.key_in, peer.frames_in++, links_.size);
    if (!frame) {
      lost(rank, "it sent a frame that is not authentic");
      return;
    }
    act_on(rank, *frame);
  }
}

void Monitor::act_on(int rank, const LinkFrame& frame) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  switch (frame.type) {
    case LinkFrameType::kGoodbye: peer.said_goodbye = true; break;
    case LinkFrameType::kFinal:
      failure_.decide(frame.verdict);
      pass_on();
      break;
    case LinkFrameType::kPropose:
      peer.proposed = true;
      if (failure_.board().decided())
        send(rank, {LinkFrameType::kFinal, failure_.board().read()});
      else
        propose(frame.verdict);
      break;
  }
}

void Monitor::lost(int rank, std::string_view how) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  const bool led = !one_host_ && decider() == rank && !peer.said_goodbye;
  peer.open = false;
  if (led) succeed();
  if (failure_.board().decided()) {
    if (led && decider() != links_.rank)
      send(decider(), {LinkFrameType::kFinal, failure_.board().read()});
    pass_on();
    return;
  }
  if (peer.said_goodbye && !proposed_) return;
  const Verdict verdict{Code::kPeerLost, rank, fmt::format("rank {} is lost: {}", rank, how)};
  BANYAN_LOG(log_, Subsystem::kFault, LogLevel::kInfo, "{}", verdict.text);
  propose(verdict);  // unless another one waits for a decision already
}

}  // namespace banyan
