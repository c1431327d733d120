// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/assembly.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "algorithms/choice/decision_table.h"
#include "src/base/bell.h"
#include "src/base/bytes.h"
#include "src/base/parse.h"
#include "src/base/process.h"
#include "src/base/processor.h"
#include "src/bootstrap/careful_exchange.h"
#include "src/communicator/agreement.h"
#include "src/communicator/cluster.h"
#include "src/communicator/tuned_network.h"

namespace banyan {
namespace {

// A full socket is read in a moment, and others receive what is under way.
Status send_to(const Links& links, int peer, std::span<const int> descriptors, Exchange& exchange,
               TimePoint deadline) {
  constexpr auto kPause = std::chrono::milliseconds(1);
  while (true) {
    Status sent = send_descriptors(links.sockets[static_cast<size_t>(peer)].get(), descriptors);
    if (sent.code() != Code::kBusy) return sent;
    if (Clock::now() >= deadline) return {Code::kTimeout, std::string(sent.message())};
    BANYAN_TRY(news_of(exchange, std::chrono::milliseconds(0)));
    std::this_thread::sleep_for(kPause);  // nothing to poll tells when descriptors may go again
  }
}

Result<std::vector<Descriptor>> receive_from(const Links& links, int peer, size_t count,
                                             Exchange& exchange, TimePoint deadline) {
  const int socket = links.sockets[static_cast<size_t>(peer)].get();
  const Result<bool> ready = wait_or_news(exchange, socket, POLLIN, deadline);
  BANYAN_TRY(ready.status());
  return receive_descriptors(socket, count, deadline);
}

class LinkWiring final : public Wiring {
 public:
  LinkWiring(const Links& links, Exchange& exchange, const Settings& settings, TimePoint deadline)
      : links_(links), exchange_(exchange), settings_(settings), deadline_(deadline) {
    for (int rank = 0; rank < links.size; ++rank) {
      const LinkPeer& peer = links.peers[static_cast<size_t>(rank)];
      peers_.push_back({peer.same_host, peer.same_process, peer.pid});
    }
  }

  int rank() const override { return links_.rank; }
  int size() const override { return links_.size; }
  const Peer& peer(int rank) const override { return peers_[static_cast<size_t>(rank)]; }
  uint32_t epoch() const override { return links_.epoch; }
  const Log& log() const override { return settings_.log; }
  TimePoint deadline() const override { return deadline_; }
  Status news() override { return news_of(exchange_, std::chrono::milliseconds(0)); }
  std::string_view net_devices() const override { return settings_.environment.net_devices; }
  std::optional<bool> gpu_direct() const override { return settings_.environment.gpu_direct; }
  // Who has chosen in UCX's own words is not spoken over.
  std::span<const Interface> interfaces() const override {
    const Environment& environment = settings_.environment;
    const bool in_its_words = environment.ucx_net_devices && environment.net_devices.empty();
    return in_its_words ? std::span<const Interface>() : links_.interfaces;
  }
  std::optional<uint64_t> single_copy_least() const override {
    return settings_.environment.single_copy_least;
  }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
    return exchange_.allgather(mine, deadline_);
  }
  Status send_descriptors(int peer, std::span<const int> descriptors) override {
    return send_to(links_, peer, descriptors, exchange_, deadline_);
  }
  Result<std::vector<Descriptor>> receive_descriptors(int peer, size_t count) override {
    return receive_from(links_, peer, count, exchange_, deadline_);
  }
  std::shared_ptr<void> share_in_process(
      std::string_view key, const std::function<std::shared_ptr<void>()>& make) override {
    const Key unique = derive_key(links_.key, "share in process", {});
    return process().share(
        std::string(reinterpret_cast<const char*>(unique.data()), unique.size()) + std::string(key),
        make);
  }

 private:
  const Links& links_;
  Exchange& exchange_;
  const Settings& settings_;
  TimePoint deadline_;
  std::vector<Peer> peers_;
};

// Finds the kind that ranks i and j use, -1: none. It is symmetrical and the same seen from
// anywhere. So it goes by what ranks say of themselves, not by what one sees of another, as the
// number of its process.
int kind_between(const LinkPeer& i, const LinkPeer& j, std::span<const int> offered) {
  Wiring::Peer pair;
  pair.same_host = i.host == j.host;
  pair.same_process = pair.same_host && i.process >= 0 && i.process == j.process;
  for (const int kind : offered)
    if (transport_kinds()[static_cast<size_t>(kind)].reaches(pair)) return kind;
  return -1;
}

std::string missing_transports() {
  std::string text;
  for (const TransportKind& kind : transport_kinds())
    if (const std::string why = kind.missing(); !why.empty())
      text += fmt::format("; {}: {}", kind.name, why);
  return text;
}

struct Connected {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<int> routes;
  Medium medium = Medium::kMemory;
};

// In memory.
Medium medium_of(int ranks_per_core) {
  if (ranks_per_core >= 3) return Medium::kCrowdedCores;
  return ranks_per_core == 2 ? Medium::kSharedCores : Medium::kMemory;
}

// Whoever knows UCX may have chosen there what carries messages. Rank 0 says it, once per job.
void warn_of_tls(const Settings& settings, int rank) {
  const std::string& tls = settings.environment.ucx_tls;
  if (rank != 0 || tls.empty() || !process().first_time("UCX_TLS")) return;
  BANYAN_LOG(
      settings.log, Subsystem::kEnv, LogLevel::kWarn,
      "UCX_TLS={} has no effect on Banyan, which uses all that UCX has but its shared memory; "
      "BANYAN_NET_DEVICES chooses the devices, and BANYAN_TRANSPORTS=^ucx does without UCX",
      printable(tls));
}

// Every rank connects the same kinds in the same order, also those that it does not use itself.
Result<Connected> connect_transports(Links& links, Exchange& exchange, const Settings& settings,
                                     TimePoint deadline) {
  const Result<std::vector<int>> kinds =
      choose_routes(links.peers, links.rank, settings.transports);
  BANYAN_TRY(kinds.status());
  LinkWiring wiring(links, exchange, settings, deadline);
  Connected connected;
  connected.routes.assign(static_cast<size_t>(links.size), -1);
  int kinds_used = 0;
  for (const int kind : settings.transports) {
    bool used_by_somebody = false;
    for (size_t i = 0; i < links.peers.size() && !used_by_somebody; ++i)
      for (size_t j = 0; j < i && !used_by_somebody; ++j)
        used_by_somebody =
            kind_between(links.peers[i], links.peers[j], settings.transports) == kind;
    if (!used_by_somebody) continue;
    ++kinds_used;
    if (!transport_kinds()[static_cast<size_t>(kind)].in_memory)
      connected.medium = Medium::kNetwork;
    std::vector<int> peers;
    for (int rank = 0; rank < links.size; ++rank)
      if (rank != links.rank && (*kinds)[static_cast<size_t>(rank)] == kind) peers.push_back(rank);
    const TransportKind& row = transport_kinds()[static_cast<size_t>(kind)];
    Result<std::unique_ptr<Transport>> transport = row.connect(wiring, peers);
    BANYAN_TRY(transport.status());
    if (row.name == "ucx") warn_of_tls(settings, links.rank);
    BANYAN_LOG(settings.log, Subsystem::kNet, LogLevel::kInfo, "{} to {} ranks", row.name,
               peers.size());
    if (peers.empty()) continue;
    for (const int peer : peers)
      connected.routes[static_cast<size_t>(peer)] = static_cast<int>(connected.transports.size());
    connected.transports.push_back(std::move(*transport));
  }
  if (connected.medium == Medium::kNetwork && share_a_host(links.peers))
    connected.medium = Medium::kLoopback;
  // One transport tells all ranks the same of their cores.
  if (connected.medium == Medium::kMemory && kinds_used == 1)
    connected.medium = medium_of(connected.transports.front()->ranks_per_core());
  return connected;
}

// Tells whether memory cannot be shared here. That is another matter than a rank that has gone, or
// than descriptors that this one has run out of, which its user can help.
bool tells_of_memory(const Status& status) {
  if (status.code() != Code::kSystem && status.code() != Code::kCorrupt) return false;
  return make_bell().ok();
}

// Ranks of one host may live in containers that keep them from making memory or from being handed
// it. Such a rank is from now on a host of its own, to all ranks alike, and only the network
// reaches it. Where that is not allowed, what it said is the error of all of them.
Status part_hosts(Links& links, Exchange& exchange, const Settings& settings, const Status& own,
                  TimePoint deadline) {
  if (!own.ok() && !tells_of_memory(own)) return own;
  Writer mine;
  put_status(mine, own);
  const Result<std::vector<Bytes>> all = exchange.allgather(mine.bytes(), deadline);
  BANYAN_TRY(all.status());
  std::vector<std::pair<int, Status>> apart;
  for (int rank = 0; rank < links.size; ++rank) {
    Status said = status_in(rank, links.rank, (*all)[static_cast<size_t>(rank)]);
    if (said.ok()) continue;
    HostIdentity& host = links.peers[static_cast<size_t>(rank)].host;
    Writer writer;
    writer.put_raw(std::as_bytes(std::span(host.digest)));
    writer.put(static_cast<uint64_t>(rank));
    const Mac digest = authenticate(Key{}, "banyan host of its own", writer.bytes());
    std::memcpy(host.digest.data(), digest.data(), host.digest.size());
    apart.emplace_back(rank, std::move(said));
  }
  if (apart.empty()) return {};
  for (LinkPeer& peer : links.peers) {
    peer.same_host = peer.host == links.peers[static_cast<size_t>(links.rank)].host;
    peer.same_process = peer.same_process && peer.same_host;
  }
  if (!choose_routes(links.peers, links.rank, settings.transports).ok())
    return apart.front().second;
  for (const auto& [rank, why] : apart)
    BANYAN_LOG(settings.log, Subsystem::kNet,
               rank == links.rank ? LogLevel::kWarn : LogLevel::kInfo,
               "rank {} ({}) shares no memory with others of its host, and the network is used: {}",
               rank, links.peers[static_cast<size_t>(rank)].host.name, why.message());
  return {};
}

bool is_alone(const Links& links, size_t rank) {
  return std::count_if(links.peers.begin(), links.peers.end(), [&](const LinkPeer& peer) {
           return peer.host == links.peers[rank].host;
         }) == 1;
}

bool all_are_alone(const Links& links) {
  for (size_t rank = 0; rank < links.peers.size(); ++rank)
    if (!is_alone(links, rank)) return false;
  return true;
}

// The lowest rank of a host hands its board to the others there.
Result<VerdictBoard> board_of_host(const Links& links, Exchange& exchange, VerdictBoard own,
                                   TimePoint deadline) {
  int lowest = 0;
  while (!links.peers[static_cast<size_t>(lowest)].same_host) ++lowest;
  if (lowest != links.rank) {
    const Result<std::vector<Descriptor>> memory =
        receive_from(links, lowest, 1, exchange, deadline);
    BANYAN_TRY(memory.status());
    return VerdictBoard::attach(memory->front(), links.size);
  }
  const int memory = own.memory().get();
  for (int rank = lowest + 1; rank < links.size; ++rank)
    if (links.peers[static_cast<size_t>(rank)].same_host)
      BANYAN_TRY(send_to(links, rank, std::span(&memory, 1), exchange, deadline));
  own.memory().close();
  return own;
}

// Every rank makes one, as it will its segment; the hosts are those whose ranks can share it.
Result<VerdictBoard> share_board(Links& links, Exchange& exchange, const Settings& settings,
                                 TimePoint deadline) {
  if (all_are_alone(links)) return VerdictBoard::alone(links.size);
  Result<VerdictBoard> own = VerdictBoard::create(links.size, deadline);
  BANYAN_TRY(part_hosts(links, exchange, settings, own.status(), deadline));
  const auto self = static_cast<size_t>(links.rank);
  Result<VerdictBoard> board = is_alone(links, self)
                                   ? VerdictBoard::alone(links.size)
                                   : board_of_host(links, exchange, std::move(*own), deadline);
  BANYAN_TRY(part_hosts(links, exchange, settings, board.status(), deadline));
  return board.ok() ? std::move(board) : VerdictBoard::alone(links.size);
}

// Takes from the tuning what it says beside its rules: links of jobs like the one in which they
// were measured, what calls by codecs took in them, and the order of rings, which is part of how
// the ranks lie. A communicator of some of its ranks inherits the links, and the likeness was found
// before.
Hierarchy use_tuning(Settings& settings, std::span<const LinkPeer> peers, Medium medium,
                     bool inherits, const Hierarchy& hierarchy) {
  SharedTuning& tuning = *settings.tuning;
  const bool alike = tuned_for(tuning.tuned_on, peers, settings.transports);
  if (!inherits && !alike) tuning.links = {};
  if (!alike) tuning.codec_times.clear();
  settings.measured =
      network_of(tuning.links, tuning.tuned_on.cores, host_numbers(peers), medium, hierarchy);
  std::vector<HostIdentity> hosts;
  for (const LinkPeer& peer : peers) hosts.push_back(peer.host);
  return hierarchy.in_ring(ring_through(hierarchy, hosts, tuning.ring));
}

// A file may be used elsewhere than where it was made, as far as its rules apply.
void warn_of_differences(const TuningFile& file, const Membership& membership) {
  const Settings& settings = membership.settings();
  const std::string text = difference(file.tuned_on, fingerprint_of(membership));
  if (!text.empty())
    BANYAN_LOG(
        settings.log, Subsystem::kPlan, LogLevel::kWarn,
        "BANYAN_TUNE_FILE={} was tuned elsewhere, here are {}; its rules and links are used where "
        "they apply",
        printable(settings.environment.tune_file), text);
}

// Whoever asks for it gets it at any level of the log, from rank 0.
void explain_choices(const Membership& membership) {
  const Settings& settings = membership.settings();
  if (!settings.explain || membership.rank() != 0 || membership.size() == 1) return;
  for (const std::string& line :
       decision_lines(membership.size(), membership.medium(), settings.rules,
                      &membership.hierarchy(), membership.measured(), settings.invariant))
    settings.log.answer(Subsystem::kPlan, line);
}

Result<Bells> make_bells() {
  Result<Descriptor> service = make_bell();
  BANYAN_TRY(service.status());
  Result<Descriptor> caller = make_bell();
  BANYAN_TRY(caller.status());
  return Bells{std::move(*service), std::move(*caller)};
}

// All but the thread that serves it.
Result<std::unique_ptr<Membership>> make_membership(Exchange& exchange, Settings settings,
                                                    TimePoint deadline) {
  const bool inherits = settings.tuning.has_value();
  const Result<Agreement> agreed = agree_on_settings(exchange, settings, deadline);
  BANYAN_TRY(agreed.status());
  if (settings.name.empty()) {
    settings.name = fmt::format("communicator {}", agreed->number);
    settings.log = settings.log.of(settings.name);
  }
  Result<Links> links = connect_links(exchange, settings.environment, deadline, settings.log);
  BANYAN_TRY(links.status());
  Result<VerdictBoard> board = share_board(*links, exchange, settings, deadline);
  BANYAN_TRY(board.status());
  Result<Bells> bells = make_bells();
  BANYAN_TRY(bells.status());
  Result<Connected> connected = connect_transports(*links, exchange, settings, deadline);
  BANYAN_TRY(connected.status());
  Result<Hierarchy> hierarchy =
      learn_cluster(exchange, agreed->wish, settings, links->peers,
                    hierarchy_of(links->peers, settings.transports).simplified(), deadline);
  BANYAN_TRY(hierarchy.status());
  *hierarchy = use_tuning(settings, links->peers, connected->medium, inherits, *hierarchy);
  BANYAN_LOG(settings.log, Subsystem::kNet, LogLevel::kInfo, "{} ranks: {}", links->size,
             hierarchy->text());
  auto membership = std::make_unique<Membership>(
      std::move(settings), std::move(*links), std::move(*board), std::move(*bells),
      std::move(connected->transports), std::move(connected->routes), connected->medium,
      std::move(*hierarchy));
  if (agreed->file) warn_of_differences(*agreed->file, *membership);
  explain_choices(*membership);
  return membership;
}

}  // namespace

Result<std::vector<int>> choose_routes(std::span<const LinkPeer> peers, int rank,
                                       std::span<const int> offered) {
  // All pairs, not only the own ones: where one is impossible, all ranks say the same.
  for (size_t i = 0; i < peers.size(); ++i)
    for (size_t j = i + 1; j < peers.size(); ++j)
      if (kind_between(peers[i], peers[j], offered) < 0)
        return Status(Code::kUnsupported,
                      fmt::format("no transport connects rank {} (host {}) and rank {} (host {}); "
                                  "allowed: {}{}",
                                  i, peers[i].host.name, j, peers[j].host.name,
                                  transport_list(offered), missing_transports()));
  std::vector<int> kinds;
  for (size_t peer = 0; peer < peers.size(); ++peer)
    kinds.push_back(static_cast<int>(peer) == rank
                        ? -1
                        : kind_between(peers[static_cast<size_t>(rank)], peers[peer], offered));
  return kinds;
}

namespace {

// Ranks that a launcher or a container keeps to a few cores share those, whatever else there is.
int cores_for_ranks(const Membership& membership) {
  const auto& peers = membership.links().peers;
  const HostIdentity& here = peers[static_cast<size_t>(membership.rank())].host;
  const auto ranks =
      static_cast<int>(std::count_if(peers.begin(), peers.end(), [&](const LinkPeer& peer) {
        return peer.host.digest == here.digest;
      }));
  if (ranks == 1) return static_cast<int>(usable_cores().size());
  const int told = membership.cores();
  return told > 0 && told < ranks ? told : online_cores();
}

}  // namespace

Fingerprint fingerprint_of(const Membership& membership) {
  std::map<std::array<uint8_t, 32>, int> hosts;
  int most = 0;
  for (const LinkPeer& peer : membership.links().peers)
    most = std::max(most, ++hosts[peer.host.digest]);
  return {.cpu = processor_model(),
          .cores = cores_for_ranks(membership),
          .ranks = membership.size(),
          .hosts = static_cast<int>(hosts.size()),
          .ppn = most,
          .transports = membership.transport_names()};
}

Hierarchy hierarchy_of(std::span<const LinkPeer> peers, std::span<const int> offered) {
  const Wiring::Peer neighbour{.same_host = true, .same_process = false};
  const bool in_memory = std::any_of(offered.begin(), offered.end(), [&](int kind) {
    const TransportKind& row = transport_kinds()[static_cast<size_t>(kind)];
    return row.in_memory && row.reaches(neighbour);
  });
  if (!in_memory) return {};
  return Hierarchy::of_labels(kHostLevel, host_numbers(peers));
}

Result<std::unique_ptr<Membership>> assemble(Exchange& exchange, Settings settings,
                                             TimePoint deadline) {
  CarefulExchange careful(exchange);
  Result<std::unique_ptr<Membership>> made = [&]() -> Result<std::unique_ptr<Membership>> {
    try {
      return make_membership(careful, std::move(settings), deadline);
    } catch (const std::bad_alloc&) {
      return Status(Code::kSystem, "out of memory");
    }
  }();
  Status status = made.status();
  // A rank alone watches nobody, and its calls end at once, but for those on streams.
  if (status.ok() && (*made)->size() > 1) status = (*made)->start_service();
  if (!status.ok()) return careful.fail(status, deadline);
  // Everybody has everything: only now may anybody send.
  BANYAN_TRY(careful.allgather({}, deadline).status());
  (*made)->open();
  return made;
}

}  // namespace banyan
