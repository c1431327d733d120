// Who the ranks are, the communicator's key, and a link to each of them.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/links.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "src/base/descriptor_room.h"
#include "src/bootstrap/handshake_dial.h"
#include "src/bootstrap/handshake_gate.h"
#include "src/bootstrap/rendezvous_roll.h"
#include "src/bootstrap/rendezvous_socket.h"
#include "src/liveness/links_local.h"

namespace banyan {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(5);
constexpr std::string_view kElsewhere =
    ", or that address leads elsewhere from here; BANYAN_SOCKET_IFNAME there names the interface";

Status from_rank(size_t rank, const HostIdentity& host, const Status& status) {
  return {status.code(), fmt::format("rank {} ({}): {}", rank, host.name, status.message())};
}

// A system error is this rank's own.
Status towards_rank(size_t rank, const HostIdentity& host, const Status& status) {
  if (status.code() != Code::kSystem) return from_rank(rank, host, status);
  return {status.code(),
          fmt::format("connecting to rank {} ({}): {}", rank, host.name, status.message())};
}

// Derives the key and epoch of this communicator from every rank's nonce, so that no two are the
// same, and from what only the members know. Where the exchange has no key of its own it is the
// caller's way to pass bytes, and what went over it is the secret.
void derive_secrets(Links& links, const std::vector<Introduction>& all,
                    const std::optional<Key>& shared) {
  Writer nonces;
  for (const Introduction& one : all) nonces.put_raw(one.nonce);
  links.key = derive_key(shared ? *shared : all[0].nonce, "communicator", nonces.bytes());
  const Mac epoch = authenticate(links.key, "banyan epoch", {});
  std::memcpy(&links.epoch, epoch.data(), sizeof links.epoch);
  links.epoch = std::max(links.epoch, 1u);
}

// Requires one user and one network namespace. The kernel makes sure of that for those who say the
// same, when they connect (SO_PEERCRED), where it can.
Status check_one_user(const Links& links, const HostIdentity& host) {
  if (!host.user_is_known) {
    return {Code::kMismatch,
            fmt::format("rank {} runs as user {}, the number that its user namespace shows for all "
                        "users that it does not have, and the ranks meet on loopback with a key "
                        "that other users of the host may know; set BANYAN_SECRET to the same "
                        "random text on all ranks",
                        links.rank, ::geteuid())};
  }
  for (size_t rank = 1; rank < links.peers.size(); ++rank) {
    if (links.peers[rank].host == links.peers[0].host) continue;
    return {Code::kMismatch,
            fmt::format("user or network namespace differ: rank {} has others than rank 0, and the "
                        "ranks meet on loopback with a key that other users of the host may know; "
                        "set BANYAN_SECRET to the same random text on all ranks",
                        rank)};
  }
  return {};
}

bool listens_for_others(const Links& links, size_t rank) {
  const auto peers = std::span(links.peers);
  return std::any_of(peers.begin() + rank + 1, peers.end(),
                     [&](const LinkPeer& higher) { return higher.host != peers[rank].host; });
}

// Every rank looks at all of them, so that all say the same where one cannot be reached.
Status find_ways(Links& links, const std::vector<HostAddresses>& told) {
  const AddressBook book(told);
  for (int rank = 0; rank < links.size; ++rank) {
    if (rank != links.rank && !listens_for_others(links, static_cast<size_t>(rank))) continue;
    const auto way = book.way_to(rank);
    if (rank == links.rank && way.ok()) links.address = way->address;
    if (listens_for_others(links, static_cast<size_t>(rank))) BANYAN_TRY(way.status());
  }
  links.interfaces = book.interfaces(links.rank);
  return {};
}

// Round one: who everybody is.
Result<Links> introduce(Exchange& exchange, const HostIdentity& host,
                        const Environment& environment, TimePoint deadline) {
  const auto nonce = random_key();
  if (!nonce.ok()) return nonce.status();
  auto addresses = host_addresses(environment, exchange.met_by());
  BANYAN_TRY(addresses.status());
  const auto network = this_network();
  BANYAN_TRY(network.status());
  addresses->network = *network;
  addresses->host = host.name;
  const Introduction mine{*nonce, host.digest, host.name, this_process(), std::move(*addresses)};
  const auto given = exchange.allgather(encode_introduction(mine), deadline);
  if (!given.ok()) return given.status();
  Links links;
  links.rank = exchange.rank();
  links.size = exchange.size();
  std::vector<Introduction> all;
  std::vector<HostAddresses> told;
  for (size_t rank = 0; rank < given->size(); ++rank) {
    auto one = parse_introduction((*given)[rank]);
    if (!one.ok()) return from_rank(rank, HostIdentity{"unknown host", {}}, one.status());
    LinkPeer peer;
    peer.host = {one->host_name, one->host_digest};
    peer.same_host = peer.host == host;
    peer.same_process = peer.same_host && one->process == mine.process;
    const auto first = std::find_if(all.begin(), all.end(), [&](const Introduction& other) {
      return other.host_digest == one->host_digest && other.process == one->process;
    });
    peer.process = static_cast<int>(first - all.begin());
    peer.same_pid_namespace =
        peer.same_host && one->process.pid_namespace == mine.process.pid_namespace;
    peer.pid = peer.same_pid_namespace ? static_cast<int>(one->process.pid) : 0;
    links.peers.push_back(std::move(peer));
    const bool own = static_cast<int>(rank) == links.rank;
    told.push_back(own ? mine.addresses : one->addresses);
    all.push_back(std::move(*one));
  }
  if (all.size() != static_cast<size_t>(links.size)) {
    return Status(Code::kInternal, "an exchange gave another number of parts than it has ranks");
  }
  if (exchange.of_one_user()) BANYAN_TRY(check_one_user(links, host));
  derive_secrets(links, all, exchange.key());
  BANYAN_TRY(find_ways(links, told));
  links.sockets.resize(links.peers.size());
  return links;
}

// A rank holds a link to each other rank, the doorbell of each on its host, and some descriptors of
// its own, of which it needs a few only while ranks meet.
Status require_descriptors_for(const Links& links) {
  constexpr size_t kOwn = 8;
  const auto here = static_cast<size_t>(std::count_if(
      links.peers.begin(), links.peers.end(), [](const LinkPeer& peer) { return peer.same_host; }));
  return require_descriptors(
      links.peers.size() - 1 + here - 1 + kOwn,
      fmt::format("a rank of {}, {} of them on this host,", links.size, here));
}

struct Listening {
  Whereabouts where;
  std::vector<Descriptor> sockets;
};

// The lower rank of each pair listens.
Result<Listening> listen_for_higher(const Links& links, const Environment& environment) {
  Listening listening;
  const bool local = std::any_of(links.peers.begin() + links.rank + 1, links.peers.end(),
                                 [](const LinkPeer& peer) { return peer.same_host; });
  if (local) {
    auto name = random_local_name();
    if (!name.ok()) return name.status();
    auto socket = listen_local(*name);
    if (!socket.ok()) return socket.status();
    listening.where.local = *name;
    listening.sockets.push_back(std::move(*socket));
  }
  if (links.address && listens_for_others(links, static_cast<size_t>(links.rank))) {
    auto listener = listen_at(*links.address, environment.port_range);
    if (!listener.ok()) return listener.status();
    listening.where.remote = listener->address;
    listening.sockets.push_back(std::move(listener->socket));
  }
  return listening;
}

// A connection to one lower rank, begun again where it had to make room.
struct Outgoing {
  size_t peer = 0;
  Whereabouts where;
  std::optional<Dial> dial;
  TimePoint again;  // without a dial: when the next one is due
  bool done = false;
};

class Connector {
 public:
  Connector(Links& links, Exchange& exchange, Gate gate, TimePoint deadline)
      : links_(links), exchange_(exchange), gate_(std::move(gate)), deadline_(deadline) {}

  Status run(std::vector<Outgoing> outgoing) {
    outgoing_ = std::move(outgoing);
    return or_earlier_news(exchange_, connect_all());
  }

 private:
  HandshakeTerms terms(int server) const { return {links_.key, links_.epoch, server}; }
  size_t missing() const;
  Status begin(Outgoing& out);
  Status advance(Outgoing& out);
  Status accept();
  Status wait();
  Status late() const;
  Status connect_all();

  Links& links_;
  Exchange& exchange_;
  Gate gate_;
  TimePoint deadline_;
  std::vector<Outgoing> outgoing_;
};

size_t Connector::missing() const {
  const auto linked = std::count_if(links_.sockets.begin(), links_.sockets.end(),
                                    [](const Descriptor& socket) { return socket.valid(); });
  return links_.sockets.size() - 1 - static_cast<size_t>(linked);
}

Status Connector::begin(Outgoing& out) {
  const LinkPeer& peer = links_.peers[out.peer];
  Descriptor socket;
  if (peer.same_host && out.where.local) {
    auto connection = connect_local(*out.where.local);
    if (!connection.ok() && connection.status().code() == Code::kBusy) {
      out.again = Clock::now() + kRetry;
      return {};
    }
    if (!connection.ok()) return towards_rank(out.peer, peer.host, connection.status());
    links_.peers[out.peer].pid = connection->pid;
    socket = std::move(connection->socket);
  } else if (!peer.same_host && out.where.remote) {
    auto connection = begin_connect(*out.where.remote);
    if (!connection.ok()) return towards_rank(out.peer, peer.host, connection.status());
    socket = std::move(*connection);
  } else {
    return from_rank(out.peer, peer.host, {Code::kCorrupt, "it does not say where it listens"});
  }
  const Joiner me{
      .rank = links_.rank, .size = links_.size, .pid = static_cast<uint32_t>(::getpid())};
  auto dial = Dial::create(std::move(socket), terms(static_cast<int>(out.peer)), me);
  if (!dial.ok()) return dial.status();
  out.dial.emplace(std::move(*dial));
  return {};
}

Status Connector::advance(Outgoing& out) {
  const HostIdentity& host = links_.peers[out.peer].host;
  const auto done = out.dial->advance();
  if (!done.ok()) {
    if (out.dial->refused()) {
      return from_rank(out.peer, host,
                       {Code::kPeerLost, fmt::format("nothing listens at {}: it has ended{}",
                                                     out.where.remote ? out.where.remote->text()
                                                                      : "its AF_UNIX name",
                                                     out.where.remote ? kElsewhere : "")});
    }
    if (done.status().code() == Code::kSystem) return towards_rank(out.peer, host, done.status());
    out.dial.reset();
    out.again = Clock::now() + kRetry;
  } else if (*done) {
    FrameSocket socket = out.dial->take_socket();
    if (!links_.peers[out.peer].same_host) tune_tcp(socket.descriptor());
    links_.sockets[out.peer] = socket.take();
    out.done = true;
    out.dial.reset();
  }
  return {};
}

Status Connector::accept() {
  std::vector<Admitted> admitted;
  gate_.serve(admitted);
  for (Admitted& one : admitted) {
    const int rank = one.joiner.rank;
    if (one.joiner.size != links_.size || rank <= links_.rank) {
      return {Code::kCorrupt, fmt::format("a link from rank {} of {} came to rank {} of {}", rank,
                                          one.joiner.size, links_.rank, links_.size)};
    }
    const auto peer = static_cast<size_t>(rank);
    if (links_.peers[peer].same_host) {
      links_.peers[peer].pid = static_cast<int>(one.peer_pid);
    } else {
      tune_tcp(one.socket.descriptor());
    }
    // A second one is of a rank that saw the first one break.
    links_.sockets[peer] = one.socket.take();
  }
  // Last, so that whoever has just come in is not told by a closed connection.
  if (!gate_.starved() || missing() == 0) return {};
  return {Code::kSystem,
          "no descriptors are left for the links to other ranks: the limit of open files "
          "(ulimit -n) is too low"};
}

Status Connector::wait() {
  std::vector<pollfd> entries;
  TimePoint until = std::min(deadline_, gate_.next());
  for (const int news : exchange_.failure_descriptors()) entries.push_back({news, POLLIN, 0});
  const size_t news_count = entries.size();
  entries.push_back({gate_.descriptor(), POLLIN, 0});
  for (const Outgoing& out : outgoing_) {
    if (out.done) continue;
    if (out.dial) {
      entries.push_back({out.dial->descriptor(), out.dial->events(), 0});
    } else {
      until = std::min(until, out.again);
    }
  }
  (void)::poll(entries.data(), entries.size(), milliseconds_until(until, 10'000));
  const bool news = std::any_of(entries.begin(), entries.begin() + news_count,
                                [](const pollfd& entry) { return entry.revents != 0; });
  return news ? exchange_.failure() : Status();
}

Status Connector::late() const {
  std::vector<bool> present;
  for (const Descriptor& socket : links_.sockets) present.push_back(socket.valid());
  present[static_cast<size_t>(links_.rank)] = true;
  std::string where;
  for (const Outgoing& out : outgoing_) {
    if (out.done || !out.where.remote || links_.peers[out.peer].same_host) continue;
    where = fmt::format("; rank {} listens at {}: a firewall may be between{}", out.peer,
                        out.where.remote->text(), kElsewhere);
    break;
  }
  return {Code::kTimeout, fmt::format("{} not connected to rank {} within the time limit{}",
                                      absent_ranks_have(present), links_.rank, where)};
}

Status Connector::connect_all() {
  while (true) {
    for (Outgoing& out : outgoing_) {
      if (!out.done && !out.dial && Clock::now() >= out.again) BANYAN_TRY(begin(out));
      if (out.dial) BANYAN_TRY(advance(out));
    }
    BANYAN_TRY(accept());
    if (missing() == 0) return {};
    BANYAN_TRY(wait());
    if (Clock::now() >= deadline_) return late();
  }
}

}  // namespace

bool share_a_host(std::span<const LinkPeer> peers) {
  return std::all_of(peers.begin(), peers.end(),
                     [&](const LinkPeer& peer) { return peer.host == peers.front().host; });
}

Result<Links> connect_links(Exchange& exchange, const HostIdentity& host,
                            const Environment& environment, TimePoint deadline, const Log& log) {
  auto links = introduce(exchange, host, environment, deadline);
  if (!links.ok()) return links.status();
  if (links->size > 1) BANYAN_TRY(require_descriptors_for(*links));
  auto listening = listen_for_higher(*links, environment);
  if (!listening.ok()) return listening.status();
  const auto given = exchange.allgather(encode_whereabouts(listening->where), deadline);
  if (!given.ok()) return given.status();
  if (links->size == 1) return links;
  std::vector<Outgoing> outgoing;
  for (size_t rank = 0; rank < static_cast<size_t>(links->rank); ++rank) {
    const auto where = parse_whereabouts((*given)[rank]);
    if (!where.ok()) return from_rank(rank, links->peers[rank].host, where.status());
    outgoing.push_back({rank, *where, std::nullopt, TimePoint::min(), false});
  }
  auto gate =
      Gate::create(std::move(listening->sockets), {links->key, links->epoch, links->rank}, log);
  if (!gate.ok()) return gate.status();
  BANYAN_TRY(Connector(*links, exchange, std::move(*gate), deadline).run(std::move(outgoing)));
  BANYAN_LOG(log, Subsystem::kInit, LogLevel::kInfo, "rank {} of {} is linked to all others",
             links->rank, links->size);
  return links;
}

Result<Links> connect_links(Exchange& exchange, const Environment& environment, TimePoint deadline,
                            const Log& log) {
  const auto host = this_host();
  if (!host.ok()) return host.status();
  return connect_links(exchange, *host, environment, deadline, log);
}

}  // namespace banyan
