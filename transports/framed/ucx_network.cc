// SPDX-License-Identifier: Apache-2.0

#include "transports/framed/ucx_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "src/base/clock.h"
#include "src/base/parse.h"
#include "transports/net_devices.h"

namespace banyan {
namespace {

constexpr auto kGreetPause = std::chrono::microseconds(100);

bool all_on_this_host(const Wiring& wiring) {
  for (int rank = 0; rank < wiring.size(); ++rank) {
    if (rank != wiring.rank() && !wiring.peer(rank).same_host) return false;
  }
  return true;
}

// As RDMA devices are named: mlx5_0:1.
bool has_port(std::string_view devices) {
  return devices.find(':') != std::string_view::npos;
}

std::string with_rate(const std::string& lane) {
  const std::string rate = rate_of_device(lane.substr(lane.find('/') + 1));
  return rate.empty() ? lane : fmt::format("{} ({})", lane, rate);
}

}  // namespace

Result<Network> network_of(const Wiring& wiring) {
  const std::vector<std::string> here = net_devices();
  const Result<std::string> named = choose_net_devices(wiring.net_devices(), here);
  BANYAN_TRY(named.status());
  const Result<std::string> chosen =
      leading_out(wiring.net_devices(), *named, here, wiring.interfaces());
  BANYAN_TRY(chosen.status());
  const bool any = chosen->empty() || *chosen == "all";
  const bool rdma = any ? std::any_of(here.begin(), here.end(), has_port) : has_port(*chosen);
  const bool only_tcp = !rdma && !(any && here.empty());
  return Network{*chosen, only_tcp, only_tcp && all_on_this_host(wiring)};
}

bool all_claim(NetworkClaim claim, const std::vector<Bytes>& given) {
  return std::all_of(given.begin(), given.end(), [claim](const Bytes& one) {
    return one.size() <= kClaims || one[claim] == std::byte{true};
  });
}

Status over(const std::string& devices, const Status& status) {
  return {status.code(),
          fmt::format("{}; its devices: {} (BANYAN_NET_DEVICES names others)", status.message(),
                      devices.empty() ? "its own choice of those that are up" : devices)};
}

Status greet(Wire& wire, Wiring& wiring, std::span<const int> peers,
             std::vector<WireOperation>& greetings) {
  BANYAN_TRY(wiring.news());
  greetings.resize(4 * peers.size());
  for (uint32_t round = 0; round < 2; ++round) {
    const auto tag_from = [&](int sender) {
      return frame_tag(wiring.epoch(), FrameKind::kGreeting, Lane::kCollective, sender, round);
    };
    WireOperation* const first = &greetings[2 * round * peers.size()];
    for (size_t i = 0; i < peers.size(); ++i) {
      wire.receive(tag_from(peers[i]), nullptr, 0, MemoryKind::kHost, first[2 * i]);
      wire.send(peers[i], tag_from(wiring.rank()), nullptr, 0, MemoryKind::kHost, first[2 * i + 1]);
    }
    for (size_t i = 0; i < 2 * peers.size(); ++i) {
      while (first[i].pending()) {
        if (wire.progress()) continue;
        if (Clock::now() > wiring.deadline())
          return {Code::kTimeout, fmt::format("rank {} has not connected to rank {} over UCX "
                                              "within the time limit",
                                              peers[i / 2], wiring.rank())};
        BANYAN_TRY(wiring.news());
        std::this_thread::sleep_for(kGreetPause);
      }
      if (first[i].code != Code::kOk)
        return {Code::kPeerLost, fmt::format("rank {} was lost while it connected", peers[i / 2])};
    }
  }
  return {};
}

// "#    lane[0]:  2:tcp/eth0.0 md[1]  -> md[1]/tcp/sysdev[255] am am_bw#0 wireup"
std::vector<std::string> lanes_in(std::string_view text) {
  std::vector<std::string> lanes;
  for (const std::string_view line : split(text, '\n')) {
    const size_t lane = line.find("lane[");
    const size_t end = line.find(" md[");
    if (lane == std::string_view::npos || end == std::string_view::npos || end < lane) continue;
    const std::string_view named = line.substr(lane, end - lane);  // "lane[0]:  2:tcp/eth0.0"
    const size_t first = named.find(':', named.find(':') + 1);
    const size_t path = named.rfind('.');
    if (first == std::string_view::npos || path == std::string_view::npos || path < first) continue;
    std::string found(trim(named.substr(first + 1, path - first - 1)));
    const bool whole = found.find('/') != std::string::npos;
    if (whole && std::find(lanes.begin(), lanes.end(), found) == lanes.end())
      lanes.push_back(std::move(found));
  }
  return lanes;
}

std::string who_is_reached(const Wiring& wiring, std::span<const int> peers,
                           std::span<const std::vector<std::string>> lanes) {
  std::string text;
  for (const bool here : {false, true}) {
    std::vector<std::string> by;
    size_t ranks = 0;
    for (size_t i = 0; i < peers.size(); ++i) {
      if (wiring.peer(peers[i]).same_host != here) continue;
      ++ranks;
      for (const std::string& lane : lanes[i])
        if (std::find(by.begin(), by.end(), lane) == by.end()) by.push_back(lane);
    }
    if (ranks == 0) continue;
    std::string names;
    for (const std::string& lane : by)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", with_rate(lane));
    text += fmt::format("{}{} to {} {} of {}", text.empty() ? "" : "; ",
                        names.empty() ? "devices that it does not name" : names, ranks,
                        ranks == 1 ? "rank" : "ranks", here ? "this host" : "other hosts");
  }
  return text;
}

}  // namespace banyan
