// Slurm's topology.conf for topology/tree: which node and which switch is below which switch.
//
//   SwitchName=leaf0 Nodes=n[000-017],login
//   SwitchName=spine0 Switches=leaf[0-3] LinkSpeed=100
//
// LinkSpeed has no unit and Slurm does not use it, so bandwidths are unknown.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/import.h"

namespace banyan {

namespace {

constexpr size_t kMostNames = size_t{1} << 20;  // of all lists
constexpr std::string_view kBlanks = " \t\r";

Status wrong(size_t line, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", line, what)};
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return result;
}

// At commas that are outside brackets.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// "n[00-02,7]": n00 n01 n02 n7. Several brackets multiply. False where it is none, or has too many.
bool expand(std::string_view text, std::vector<std::string>* names) {
  std::vector<std::string> heads = {""};
  while (!text.empty()) {
    const size_t open = text.find('[');
    for (std::string& head : heads) head += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    std::vector<std::string> longer;
    for (const std::string_view part : split(text.substr(open + 1, close - open - 1), ',')) {
      const size_t dash = part.find('-');
      const std::string_view from = part.substr(0, dash);
      const std::string_view to = dash == std::string_view::npos ? from : part.substr(dash + 1);
      const auto first = parse_integer(from, 0, 99'999'999);
      const auto last = parse_integer(to, 0, 99'999'999);
      if (!first.ok() || !last.ok() || *last < *first) return false;
      if (static_cast<size_t>(*last - *first + 1) * heads.size() + longer.size() > kMostNames)
        return false;
      for (int64_t number = *first; number <= *last; ++number)
        for (const std::string& head : heads)
          longer.push_back(fmt::format("{}{:0{}}", head, number, from.size()));
    }
    heads = std::move(longer);
    text.remove_prefix(close + 1);
  }
  names->insert(names->end(), heads.begin(), heads.end());
  return names->size() <= kMostNames;
}

class Tree {
 public:
  Result<Topology> read(std::string_view text) {
    std::string joined;  // lines may be continued
    size_t number = 0;
    size_t begin = 1;
    for (std::string_view line : split(text, '\n')) {
      ++number;
      line = trim(line.substr(0, line.find('#')));
      if (joined.empty()) begin = number;
      if (line.ends_with('\\')) {
        joined.append(line.substr(0, line.size() - 1)).append(" ");
        continue;
      }
      joined += line;
      if (!trim(joined).empty()) BANYAN_TRY(read_line(joined, begin));
      joined.clear();
    }
    for (const auto& [upper, name, line] : pending_) {
      const auto below = switches_.find(name);
      if (below == switches_.end())
        return wrong(line, fmt::format("Switches has '{}', which no SwitchName describes",
                                       printable(name.substr(0, 80))));
      join(below->second, upper);
      below_[upper].push_back({below->second, line});
    }
    BANYAN_TRY(check_no_circles());
    make_texts_valid(topology_);
    if (const Status status = check(topology_); !status.ok()) return wrong(1, status.message());
    return canonical(topology_);
  }

 private:
  struct Below {
    int index;  // of a switch
    size_t line;
  };
  struct Pending {
    int upper;
    std::string name;
    size_t line;
  };

  // From the top down: what is left when no more switches have all those above them done.
  Status check_no_circles() const {
    std::map<int, size_t> above;  // of each switch, not done yet
    for (const auto& [name, index] : switches_) above.emplace(index, 0);
    for (const auto& [upper, lowers] : below_)
      for (const Below& lower : lowers) ++above.at(lower.index);
    std::vector<int> done;
    for (const auto& [index, count] : above)
      if (count == 0) done.push_back(index);
    for (size_t i = 0; i < done.size(); ++i) {
      const auto lowers = below_.find(done[i]);
      if (lowers == below_.end()) continue;
      for (const Below& lower : lowers->second)
        if (--above.at(lower.index) == 0) done.push_back(lower.index);
    }
    if (done.size() == switches_.size()) return {};
    for (const auto& [upper, lowers] : below_)
      if (above.at(upper) != 0) return wrong(lowers.front().line, "a switch is below itself");
    return {};
  }

  void join(int below, int above) {
    topology_.links.push_back({.from = below, .to = above, .kind = LinkKind::kNetwork});
  }

  Status read_line(std::string_view line, size_t number) {
    std::map<std::string, std::string_view> values;
    for (std::string_view rest = line; !trim(rest).empty();) {
      rest.remove_prefix(rest.find_first_not_of(kBlanks));
      const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
      rest.remove_prefix(word.size());
      const size_t equals = word.find('=');
      const std::string key = lower(word.substr(0, equals));
      constexpr std::array<std::string_view, 4> kKeys = {"switchname", "nodes", "switches",
                                                         "linkspeed"};
      if (equals == std::string_view::npos ||
          std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        return wrong(number, fmt::format("'{}' is not SwitchName=, Nodes=, Switches= or LinkSpeed=",
                                         printable(word.substr(0, 40))));
      if (!values.emplace(key, word.substr(equals + 1)).second)
        return wrong(number, fmt::format("{}= is there twice", printable(word.substr(0, equals))));
    }
    const std::string name(values["switchname"]);
    if (name.empty()) return wrong(number, "a line without SwitchName=");
    if (switches_.count(name) != 0)
      return wrong(number, fmt::format("SwitchName={} for the second time", printable(name)));
    const int index =
        add_vertex(topology_, {.kind = VertexKind::kSwitch, .name = name, .parent = 0});
    switches_.emplace(name, index);
    for (const char* key : {"nodes", "switches"}) {
      std::vector<std::string> names;
      for (const std::string_view part : split_list(values[key]))
        if (!expand(part, &names))
          return wrong(number,
                       fmt::format("{}={} is not a list such as n[0-3],m7 of at most {} names", key,
                                   printable(values[key].substr(0, 80)), kMostNames));
      names_ += names.size();
      if (names_ > kMostNames)
        return wrong(number, fmt::format("more than {} names in all lists", kMostNames));
      for (const std::string& each : names) {
        if (each.empty()) continue;
        if (key[0] == 'n') {
          const auto [node, fresh] =
              nodes_.emplace(each, static_cast<int>(topology_.vertices.size()));
          if (fresh) add_vertex(topology_, {.kind = VertexKind::kNode, .name = each, .parent = 0});
          join(node->second, index);
        } else {
          pending_.push_back({index, each, number});
        }
      }
    }
    return {};
  }

  Topology topology_ = empty_topology();
  size_t names_ = 0;  // of all lists
  std::map<std::string, int> switches_;
  std::map<std::string, int> nodes_;
  std::vector<Pending> pending_;
  std::map<int, std::vector<Below>> below_;  // by the switch above
};

}  // namespace

Result<Topology> read_slurm_topology(std::string_view text) {
  return Tree().read(text);
}

}  // namespace banyan
