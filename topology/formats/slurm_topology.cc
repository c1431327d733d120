// Reads Slurm's topology.conf for topology/tree: which node and which switch is below which switch.
//
//   SwitchName=leaf0 Nodes=n[000-017],login
//   SwitchName = spine0 Switches="leaf[0-3]" LinkSpeed=100
//
// LinkSpeed has no unit and Slurm does not use it, so bandwidths are unknown.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/formats/import.h"

namespace banyan {

namespace {

constexpr size_t kMostNamesInAll = size_t{1} << 20;  // of all lists
constexpr std::string_view kBlanks = " \t\r";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return result;
}

// At commas and blanks that are outside brackets.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    const bool between = text[i] == ',' || kBlanks.find(text[i]) != std::string_view::npos;
    if (!between || inside) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Status not_names(std::string why) {
  return {Code::kInvalidArgument, std::move(why)};
}

Status too_many() {
  return not_names(fmt::format("right are at most {} names", kMostNamesInAll));
}

Result<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stopped == end) return number;
  return not_names(fmt::format("'{}' is not a number from 0 to {}", printable(text.substr(0, 40)),
                               std::numeric_limits<uint64_t>::max()));
}

// "00-02,7" behind each head: zeros at the beginning of the first number are kept.
Status expand_ranges(std::string_view ranges, std::vector<std::string>* heads) {
  std::vector<std::string> longer;
  for (const std::string_view raw : split(ranges, ',')) {
    const std::string_view part = trim(raw);
    const size_t dash = part.find('-');
    const std::string_view from = part.substr(0, dash);
    const auto first = parse_number(from);
    BANYAN_TRY(first.status());
    const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
    BANYAN_TRY(last.status());
    if (*last < *first)
      return not_names(fmt::format("'{}' goes down", printable(part.substr(0, 80))));
    const uint64_t more = *last - *first;
    if (more >= kMostNamesInAll || (more + 1) * heads->size() + longer.size() > kMostNamesInAll)
      return too_many();
    if (from.size() > kMostNameBytes)
      return not_names(fmt::format("a number of {} digits", from.size()));
    for (uint64_t step = 0; step <= more; ++step)
      for (const std::string& head : *heads)
        longer.push_back(fmt::format("{}{:0{}}", head, *first + step, from.size()));
  }
  *heads = std::move(longer);
  return {};
}

// "n[00-02,7]": n00 n01 n02 n7. Several brackets multiply.
Status expand(std::string_view text, std::vector<std::string>* names) {
  std::vector<std::string> heads = {""};
  while (!text.empty()) {
    const size_t open = text.find('[');
    const std::string_view plain = text.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return not_names("']' without '['");
    for (std::string& head : heads) {
      head += plain;
      if (head.size() > kMostNameBytes)
        return not_names(fmt::format("a name of more than {} bytes", kMostNameBytes));
    }
    if (open == std::string_view::npos) break;
    const size_t close = text.find(']', open);
    if (close == std::string_view::npos) return not_names("'[' without ']'");
    BANYAN_TRY(expand_ranges(text.substr(open + 1, close - open - 1), &heads));
    text.remove_prefix(close + 1);
  }
  names->insert(names->end(), heads.begin(), heads.end());
  return names->size() > kMostNamesInAll ? too_many() : Status();
}

// How many backslashes are right before that place: an odd number makes the next letter plain.
size_t backslashes_before(std::string_view text, size_t at) {
  const size_t other = text.substr(0, at).find_last_not_of('\\');
  return other == std::string_view::npos ? at : at - other - 1;
}

std::string_view without_comment(std::string_view line) {
  for (size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1))
    if (backslashes_before(line, at) % 2 == 0) return line.substr(0, at);
  return line;
}

std::string without_escapes(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && ++i == line.size()) break;
    text += line[i];
  }
  return text;
}

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

// Takes the first pair of a line and cuts it off, as Slurm's own reader does: with blanks around
// the sign, and a value that is in quotes or has no blank in it.
Result<KeyValue> take_pair(std::string_view& rest) {
  const auto skip_blanks = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  };
  const auto take = [&](std::string_view ends) {
    const std::string_view word = rest.substr(0, rest.find_first_of(ends));
    rest.remove_prefix(word.size());
    return word;
  };
  KeyValue pair{.key = take(" \t\r="), .value = {}};
  skip_blanks();
  if (!rest.starts_with('='))
    return not_names(fmt::format("'{}' is not SwitchName=, Nodes=, Switches= or LinkSpeed=",
                                 printable(pair.key.substr(0, 40))));
  rest.remove_prefix(1);
  skip_blanks();
  const bool quoted = rest.starts_with('"');
  if (quoted) rest.remove_prefix(1);
  pair.value = take(quoted ? "\"" : kBlanks);
  const std::string key = printable(pair.key.substr(0, 40));
  if (quoted && !rest.starts_with('"')) return not_names(key + "=\" without a second quote");
  if (quoted) rest.remove_prefix(1);
  if (!rest.empty() && kBlanks.find(rest.front()) == std::string_view::npos)
    return not_names(
        fmt::format("'{}' right behind the quotes of {}=", printable(rest.substr(0, 40)), key));
  if (!quoted && pair.value.find_first_of("=\"") != std::string_view::npos)
    return not_names(
        fmt::format("{}= is '{}'; right is a value without = and quotes, or one in "
                    "quotes",
                    key, printable(pair.value.substr(0, 40))));
  skip_blanks();
  return pair;
}

class SwitchTree {
 public:
  Result<Topology> read(std::string_view text) {
    std::string joined;  // lines may be continued
    size_t number = 0;
    size_t begin = 1;
    for (std::string_view line : split(text, '\n')) {
      ++number;
      line = without_comment(line);
      line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
      if (joined.empty()) begin = number;
      if (backslashes_before(line, line.size()) % 2 == 1) {
        joined.append(line.substr(0, line.size() - 1));
        continue;
      }
      joined += line;
      const std::string whole = without_escapes(joined);
      joined.clear();
      if (!trim(whole).empty()) BANYAN_TRY(read_line(trim(whole), begin));
    }
    if (!joined.empty()) return wrong_line(begin, "the file ends in a line that is continued");
    for (const auto& [upper, name, line] : pending_) {
      const auto below = switches_.find(name);
      if (below == switches_.end())
        return wrong_line(line, fmt::format("Switches has '{}', which no SwitchName describes",
                                            printable(name.substr(0, 80))));
      join(below->second, upper);
      below_[upper].push_back({below->second, line});
    }
    BANYAN_TRY(check_no_circles());
    make_texts_valid(topology_);
    if (const Status status = check(topology_); !status.ok())
      return wrong_line(1, status.message());
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
      if (above.at(upper) != 0) return wrong_line(lowers.front().line, "a switch is below itself");
    return {};
  }

  void join(int below, int above) {
    topology_.edges.push_back({.from = below, .to = above, .kind = EdgeKind::kNetwork});
  }

  Status read_line(std::string_view line, size_t number) {
    std::map<std::string, std::string_view> values;
    for (std::string_view rest = line; !rest.empty();) {
      const auto pair = take_pair(rest);
      if (!pair.ok()) return wrong_line(number, pair.status().message());
      const std::string key = lower(pair->key);
      constexpr std::array<std::string_view, 4> kKeys = {"switchname", "nodes", "switches",
                                                         "linkspeed"};
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        return wrong_line(number,
                          fmt::format("'{}=' is not SwitchName=, Nodes=, Switches= or LinkSpeed=",
                                      printable(pair->key.substr(0, 40))));
      if (!values.emplace(key, trim(pair->value)).second)
        return wrong_line(number,
                          fmt::format("{}= is there twice", printable(pair->key.substr(0, 40))));
    }
    const std::string name(values["switchname"]);
    if (name.empty()) return wrong_line(number, "a line without SwitchName=");
    if (switches_.count(name) != 0)
      return wrong_line(number, fmt::format("SwitchName={} for the second time", printable(name)));
    const int index =
        add_vertex(topology_, {.kind = VertexKind::kSwitch, .name = name, .parent = 0});
    switches_.emplace(name, index);
    for (const char* key : {"nodes", "switches"}) {
      std::vector<std::string> names;
      for (const std::string_view part : split_list(values[key]))
        if (const Status read = expand(part, &names); !read.ok())
          return wrong_line(number,
                            fmt::format("{}={} is not a list such as n[0-3],m7: {}", key,
                                        printable(values[key].substr(0, 80)), read.message()));
      names_ += names.size();
      if (names_ > kMostNamesInAll)
        return wrong_line(number, fmt::format("more than {} names in all lists", kMostNamesInAll));
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
  return SwitchTree().read(text);
}

}  // namespace banyan
