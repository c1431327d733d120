// Reads the output of ibnetdiscover (infiniband-diags): switches, channel adapters and the cables
// between them.
//
//   Switch  65 "S-2c5e..."   # "leaf1:MQM9701/U1" enhanced port 0 lid 73 lmc 0
//   [1]     "H-e09d..."[1](e09d...)   # "host7 mlx5_0" lid 647 4xNDR
//   [35]    "S-2c5e..."[32]           # "spine2:MQM9701/U1" lid 236 4xNDR
//   Ca      1 "H-e09d..."    # "host7 mlx5_0"
//   [1](e09d...)   "S-2c5e..."[1]     # lid 647 lmc 0 "leaf1:MQM9701/U1" lid 73 4xNDR
//
// An adapter's description is "HOST DEVICE" where the host's administrator left it so; another one
// says nothing of the host, which then gets the adapter's name. Where hosts have not been given
// names yet, they are all "localhost": a device that is in one host twice is in two. Aggregation
// nodes, adapters within switches, are left out.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/formats/import.h"

namespace banyan {

namespace {

// Gives the GB/s each direction of "4xNDR": data rates of a lane as the InfiniBand specification
// rounds them, FDR's less its coding.
Figure rate_of(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kLanes = {{{"SDR", 0.25},
                                                                          {"DDR", 0.5},
                                                                          {"QDR", 1},
                                                                          {"FDR10", 1.25},
                                                                          {"FDR", 1.7045},
                                                                          {"EDR", 3.125},
                                                                          {"HDR", 6.25},
                                                                          {"NDR", 12.5},
                                                                          {"XDR", 25}}};
  const size_t by = text.find('x');
  const auto lanes = parse_integer(text.substr(0, by), 1, 12);
  for (const auto& [name, each] : kLanes)
    if (by != std::string_view::npos && lanes.ok() && text.substr(by + 1) == name)
      return {static_cast<double>(*lanes) * each, Source::kHardware};
  return {std::nullopt, Source::kHardware};
}

// What is between the quotes that begin at or after `at`, and the position behind them.
std::optional<std::pair<std::string, size_t>> quoted(std::string_view line, size_t at) {
  const size_t begin = line.find('"', at);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = line.find('"', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = trim(line.substr(begin + 1, end - begin - 1));
  return std::pair(printable(text.substr(0, 200)), end + 1);
}

// "[17]" at that place: 17.
std::optional<int64_t> bracketed(std::string_view line, size_t at) {
  const size_t end = line.find(']', at);
  if (at >= line.size() || line[at] != '[' || end == std::string_view::npos) return std::nullopt;
  const auto number = parse_integer(line.substr(at + 1, end - at - 1), 0, 65535);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

struct NetDevice {
  bool is_switch = false;
  std::string text{};    // its description
  std::string system{};  // GUID of the card that it is a part of; empty: not said
  size_t line = 0;
};

using Plug = std::pair<std::string, int64_t>;  // device and port

class Subnet {
 public:
  explicit Subnet(Notes& notes) : notes_(notes) {}

  Result<Topology> read(std::string_view text) {
    size_t number = 0;
    for (const std::string_view raw : split(text, '\n')) {
      ++number;
      const std::string_view line = trim(raw);
      if (line.empty() || line.front() == '#') continue;
      BANYAN_TRY(read_line(line, number));
    }
    if (devices_.empty()) return wrong_line(number, "the file ends without a Switch or a Ca");
    return build();
  }

 private:
  Status read_line(std::string_view line, size_t number) {
    const size_t blank = line.find_first_of("\t =");
    const std::string_view word = line.substr(0, blank);
    if (word == "Switch" || word == "Ca" || word == "Rt") {
      const auto id = quoted(line, 0);
      if (!id || id->first.empty())
        return wrong_line(number,
                          fmt::format("right is {} PORTS \"GUID\" # \"description\"", word));
      const auto text = quoted(line, id->second);
      if (!devices_
               .emplace(id->first, NetDevice{word == "Switch", text ? text->first : "",
                                             std::exchange(system_, {}), number})
               .second)
        return wrong_line(number, fmt::format("'{}' is described twice", id->first));
      current_ = id->first;
      return {};
    }
    if (word == "sysimgguid" && line.size() > word.size())
      system_ = printable(line.substr(word.size() + 1, 40));
    if (line.front() == '[') return read_cable(line, number);
    // vendid=, devid=, sysimgguid=, switchguid=, caguid=, rtguid=
    if (line.find('=') != std::string_view::npos) return {};
    return wrong_line(number,
                      fmt::format("'{}' is none of ibnetdiscover's lines; right are KEY=VALUE, "
                                  "Switch, Ca, Rt and [PORT]",
                                  printable(line.substr(0, 40))));
  }

  // [PORT](GUID)? "PEER"[PORT](GUID)? # ... RATE
  Status read_cable(std::string_view line, size_t number) {
    const auto port = bracketed(line, 0);
    const auto peer = quoted(line, 0);
    const auto there = peer ? bracketed(line, peer->second) : std::nullopt;
    if (current_.empty() || !port || !there)
      return wrong_line(number, "right is [PORT] \"GUID\"[PORT] below a Switch, Ca or Rt");
    const std::string_view rate = line.substr(line.find_last_of(" \t") + 1);
    Plug a{current_, *port};
    Plug b{peer->first, *there};
    // Both ends have the line; either may be missing.
    if (b < a) std::swap(a, b);
    cables_.emplace(std::pair(a, b), std::string(rate.substr(0, 16)));
    return {};
  }

  // "host7 mlx5_0": host and device; nothing where the description is of another kind.
  static std::optional<std::pair<std::string, std::string>> host_of(const std::string& text) {
    const size_t blank = text.rfind(' ');
    if (blank == std::string::npos || blank == 0) return std::nullopt;
    const std::string device = text.substr(blank + 1);
    const bool numbered = !device.empty() && device.back() >= '0' && device.back() <= '9';
    const bool separated = device.find_first_of("-_") != std::string::npos;
    if (!numbered || !separated || text.find(' ') != blank) return std::nullopt;
    return std::pair(text.substr(0, blank), device);
  }

  static bool left_out(const NetDevice& device) {
    return device.text.find("Aggregation Node") != std::string::npos;
  }

  // Adapters of one name are those of several machines. Those of one card, with names of their own,
  // are taken for one.
  void tell_apart(const std::string& host, const std::vector<std::string>& adapters) {
    std::map<std::string, std::vector<std::string>> cards;
    for (const std::string& id : adapters) {
      const std::string& system = devices_.at(id).system;
      cards[system.empty() ? id : system].push_back(id);
    }
    for (const auto& [system, ids] : cards)
      for (const std::string& id : ids) {
        const std::string& first = repeated(ids).empty() ? ids.front() : id;
        machine_of_[id] = fmt::format("{}-{}", host, first.substr(first.starts_with("H-") ? 2 : 0));
      }
  }

  // A device that several of the adapters are; empty: all differ.
  std::string repeated(const std::vector<std::string>& adapters) const {
    std::set<std::string> seen;
    for (const std::string& id : adapters)
      if (std::string device = host_of(devices_.at(id).text)->second; !seen.insert(device).second)
        return device;
    return {};
  }

  void find_machines() {
    std::map<std::string, std::vector<std::string>> adapters;  // by the host that they name
    for (const auto& [id, device] : devices_)
      if (const auto known = host_of(device.text); known && !device.is_switch && !left_out(device))
        adapters[known->first].push_back(id);
    for (const auto& [host, ids] : adapters) {
      const std::string device = repeated(ids);
      if (device.empty()) continue;
      tell_apart(host, ids);
      notes_.add(
          fmt::format("line {}: several machines are called '{}', since {} is there more "
                      "than once: they get names by their GUIDs",
                      devices_.at(ids.front()).line, host, device));
    }
  }

  // A file may be a part of what there is.
  void note_lost_cables() {
    std::set<std::string> unknown;
    size_t count = 0;
    for (const auto& [ends, rate] : cables_)
      for (const Plug& plug : {ends.first, ends.second})
        if (devices_.count(plug.first) == 0) {
          unknown.insert(plug.first);
          ++count;
        }
    if (count == 0) return;
    notes_.add(fmt::format("{} cable{} to devices that the file does not have {} left out: {}",
                           count, count == 1 ? "" : "s", count == 1 ? "is" : "are",
                           listed(unknown)));
  }

  Vertex& at(int vertex) { return topology_.vertices[static_cast<size_t>(vertex)]; }

  int add_adapter(const std::string& id, const NetDevice& device) {
    const auto known = host_of(device.text);
    const auto machine = machine_of_.find(id);
    const std::string host = machine != machine_of_.end() ? machine->second
                             : known                      ? known->first
                                                          : id;
    const auto [node, fresh] = nodes_.emplace(host, static_cast<int>(topology_.vertices.size()));
    if (fresh) add_vertex(topology_, {.kind = VertexKind::kNode, .name = host, .parent = 0});
    return add_vertex(topology_, {.kind = VertexKind::kNic,
                                  .name = known ? known->second : id,
                                  .parent = node->second,
                                  .model = known ? std::string() : device.text,
                                  .guid = id});
  }

  int plug_of(const Plug& plug, const Figure& rate) {
    const auto place = places_.find(plug.first);
    if (place == places_.end() || devices_.at(plug.first).is_switch)
      return place == places_.end() ? -1 : place->second;
    const auto [port, fresh] = ports_.emplace(plug, static_cast<int>(topology_.vertices.size()));
    if (fresh)
      add_vertex(topology_, {.kind = VertexKind::kPort,
                             .name = fmt::format("{}:{}", at(place->second).name, plug.second),
                             .parent = place->second,
                             .index = static_cast<int>(plug.second),
                             .link_layer = "InfiniBand",
                             .state = "ACTIVE",
                             .rate = rate});
    return port->second;
  }

  Result<Topology> build() {
    find_machines();
    note_lost_cables();
    for (const auto& [id, device] : devices_) {
      if (left_out(device)) continue;
      places_[id] = device.is_switch
                        ? add_vertex(topology_, {.kind = VertexKind::kSwitch,
                                                 .name = device.text.empty() ? id : device.text,
                                                 .parent = 0,
                                                 .guid = id})
                        : add_adapter(id, device);
    }
    for (const auto& [ends, text] : cables_) {
      const Figure rate = rate_of(text);
      const int from = plug_of(ends.first, rate);
      const int to = plug_of(ends.second, rate);
      if (from < 0 || to < 0 || from == to) continue;  // ends at what is left out
      topology_.edges.push_back({.from = from,
                                 .to = to,
                                 .kind = EdgeKind::kNetwork,
                                 .bandwidth = rate,
                                 .text = rate.known() ? text : std::string()});
    }
    make_texts_valid(topology_);
    if (const Status status = check(topology_); !status.ok())
      return wrong_line(1, status.message());
    return canonical(topology_);
  }

  std::map<std::string, NetDevice> devices_;
  std::map<std::pair<Plug, Plug>, std::string> cables_;
  std::string current_;
  std::string system_;  // GUID that the next device has

  Notes& notes_;
  Topology topology_ = empty_topology();
  std::map<std::string, std::string> machine_of_;  // of adapters whose host's name is several's
  std::map<std::string, int> nodes_;
  std::map<std::string, int> places_;
  std::map<Plug, int> ports_;
};

}  // namespace

Result<Topology> read_ibnetdiscover(std::string_view text, Notes& notes) {
  return Subnet(notes).read(text);
}

}  // namespace banyan
