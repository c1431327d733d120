// Reads BANYAN_ALGO. The grammar stands in select.h.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "algorithms/choice/rule_tokens.h"
#include "algorithms/choice/select.h"
#include "src/base/parse.h"
#include "src/base/same_word.h"

namespace banyan {

namespace {

constexpr std::string_view kSizeForm = "size=LO-HI";
constexpr std::string_view kRanksForm = "ranks=LO-HI";
constexpr std::string_view kNodesForm = "nodes=LO-HI";
constexpr std::string_view kPpnForm = "ppn=LO-HI";
constexpr std::string_view kTypesForm = "dtype=TYPE,TYPE";
constexpr std::string_view kMemoryForm = "mem=MEMORY,MEMORY";
constexpr std::string_view kForms =
    "size=LO-HI, ranks=LO-HI, nodes=LO-HI, ppn=LO-HI, dtype=TYPE,TYPE, mem=MEMORY,MEMORY";
constexpr std::string_view kExplain = "explain";

// What users of other libraries write. Shown is always the name itself.
struct OtherName {
  std::string_view word, name;
};
constexpr OtherName kOtherNames[] = {{"recdbl", "recursive_doubling"},
                                     {"hier", "hierarchical"},
                                     {"rab", "leaders"},
                                     {"dtree", "double_tree"},
                                     {"tree", "double_tree"}};

int algorithm_of(std::string_view word) {
  const auto other =
      std::find_if(std::begin(kOtherNames), std::end(kOtherNames),
                   [&](const OtherName& each) { return same_word(each.word, word); });
  return find_algorithm(other == std::end(kOtherNames) ? word : other->name);
}

std::string algorithm_names() {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) names.push_back(algorithm.name);
  for (const OtherName& other : kOtherNames) names.push_back(other.word);
  return join(names);
}

std::string collective_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kNamedCollectives; ++i) names.push_back(name_of(static_cast<Collective>(i)));
  names.push_back("*");
  return join(names);
}

std::string type_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kDataTypeCount; ++i) names.push_back(name_of(static_cast<DataType>(i)));
  return join(names);
}

constexpr std::string_view kMemoryNames[] = {"host", "cuda", "managed"};
constexpr MemoryKind kMemoryKinds[] = {MemoryKind::kHost, MemoryKind::kDevice,
                                       MemoryKind::kManaged};

// "unknown algorithm 'rign' at position 1; valid: ...", also where no word stands at all.
Status wrong(std::string_view what, const Token& token, std::string_view valid) {
  if (token.word())
    return {Code::kInvalidArgument, fmt::format("unknown {} {} at position {}; valid: {}", what,
                                                quoted(token.text), token.position, valid)};
  return {Code::kInvalidArgument,
          fmt::format("missing {} at position {}, found {}; valid: {}", what, token.position,
                      token.text.empty() ? "the end" : quoted(token.text), valid)};
}

Status unexpected(const Token& token, std::string_view valid) {
  return {Code::kInvalidArgument,
          fmt::format("unexpected {} at position {}; valid: {}",
                      token.text.empty() ? "end" : quoted(token.text), token.position, valid)};
}

std::string names_that_fit(const std::vector<Collective>& collectives) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms())
    if (std::any_of(collectives.begin(), collectives.end(),
                    [&](Collective collective) { return algorithm.fits(collective); }))
      names.push_back(algorithm.name);
  return join(names);
}

// A name that the collectives of its rule have no use for; without any, every name has one.
Status check_use(const Rule& rule, int algorithm, const Token& token) {
  const auto& list = rule.collectives;
  if (list.empty() || std::any_of(list.begin(), list.end(), [&](Collective collective) {
        return fits(algorithm, collective);
      }))
    return {};
  return {Code::kInvalidArgument,
          fmt::format("algorithm {} at position {} does no {}; valid: {}", quoted(token.text),
                      token.position, name_of(list.front()), names_that_fit(list))};
}

// A rule that leaves algorithms out must leave one for each collective that it names, or for each
// of all.
Status check_rest(const Rule& rule, const Token& first) {
  if (!rule.excluding) return {};
  std::vector<Collective> list = rule.collectives;
  for (int i = 0; list.size() < kNamedCollectives && rule.collectives.empty(); ++i)
    list.push_back(static_cast<Collective>(i));
  for (const Collective collective : list) {
    bool any = false;
    for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
      any = any || (fits(i, collective) && std::find(rule.algorithms.begin(), rule.algorithms.end(),
                                                     i) == rule.algorithms.end());
    if (!any)
      return {Code::kInvalidArgument,
              fmt::format("'^' at position {} leaves nothing for {}; valid: at most all but one of "
                          "{}, or name the collectives that are meant, as in 'allreduce: ^ring'",
                          first.position, name_of(collective), names_that_fit({collective}))};
  }
  return {};
}

// The keys of an algorithm, as one gives them.
std::string forms_of(const Algorithm& algorithm) {
  std::vector<std::string_view> forms;
  for (int key = 0; key < kParameterKeyCount; ++key)
    if (algorithm.takes(static_cast<ParameterKey>(key)))
      forms.push_back(form_of(static_cast<ParameterKey>(key)));
  return join(forms);
}

// A parameter that the collectives of its rule have no use for; without any, every one has one.
Status check_use(const Rule& rule, const Algorithm& algorithm, ParameterKey key,
                 const Token& token) {
  const auto& list = rule.collectives;
  if (list.empty() || std::any_of(list.begin(), list.end(), [&](Collective collective) {
        return algorithm.takes(key, collective);
      }))
    return {};
  std::vector<std::string_view> names;
  for (int i = 0; i < kNamedCollectives; ++i)
    if (algorithm.takes(key, static_cast<Collective>(i)))
      names.push_back(name_of(static_cast<Collective>(i)));
  return {Code::kInvalidArgument,
          fmt::format("parameter {} at position {} is none of {} of {}; valid: of {}",
                      quoted(token.text), token.position, name_of(list.front()), algorithm.name,
                      join(names))};
}

// Ranks of a torus; some beyond all numbers of ranks are as good as others.
uint64_t places_of(const Parameters& parameters) {
  uint64_t places = 1;
  for (const uint16_t length : parameters.dimensions)
    if (length != 0 && places <= std::numeric_limits<int>::max()) places *= length;
  return places;
}

// A rule that no call of any job can follow is a mistake.
Status check_followed(const Rule& rule, const Token& first) {
  const auto never = [&](std::string_view why) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("no call can follow the rule at position {}: {}", first.position, why));
  };
  const auto& list = rule.collectives;
  const bool barriers = !list.empty() && std::all_of(list.begin(), list.end(), [](Collective each) {
    return each == Collective::kBarrier;
  });
  if (barriers && (rule.size_least > 0 || !rule.types.empty() || !rule.memories.empty()))
    return never("a barrier has no bytes, no type and no memory; valid: none of size, dtype, mem");
  if (std::max(rule.nodes_least, rule.ppn_least) > rule.ranks_most)
    return never("it wants more nodes, or ranks of a node, than ranks; valid: at most as many");
  const bool bounded = rule.ranks_least > 0 || rule.ranks_most < std::numeric_limits<int>::max();
  const bool shaped =
      std::all_of(rule.parameters.begin(), rule.parameters.end(),
                  [](const Parameters& parameters) { return parameters.dimensions.front() != 0; });
  if (!bounded || !shaped || rule.excluding) return {};
  for (const Parameters& parameters : rule.parameters) {
    const uint64_t places = places_of(parameters);
    if (places >= static_cast<uint64_t>(rule.ranks_least) &&
        places <= static_cast<uint64_t>(rule.ranks_most))
      return {};
  }
  return never(
      "its ranks are not as many as its torus has places; valid: dims whose product is "
      "within ranks");
}

class Parser {
 public:
  // `variable`: it may have the word 'explain'.
  Parser(std::string_view text, bool variable) : tokens_(tokenize(text)), variable_(variable) {}

  Result<AlgorithmVariable> parse() {
    AlgorithmVariable read;
    if (peek().text.empty()) return read;
    for (;;) {
      if (at_explain()) {
        read.explain = true;
        ++at_;
      } else {
        Result<Rule> next = rule();
        BANYAN_TRY(next.status());
        next->number = static_cast<int>(read.rules.size()) + 1;
        read.rules.push_back(std::move(*next));
      }
      if (peek().text.empty()) return read;
      ++at_;  // the semicolon
    }
  }

 private:
  bool at_explain() const {
    return variable_ && same_word(peek().text, kExplain) &&
           (peek(1).text.empty() || peek(1).is(';'));
  }

  Result<Rule> rule() {
    Rule rule;
    const Token first = peek();
    if (has_condition())
      BANYAN_TRY(condition(rule));
    else if (at_range() || first.is('*') || parse_collective(first.text).ok())
      return missing_colon();
    BANYAN_TRY(choice(rule));
    BANYAN_TRY(check_followed(rule, first));
    return rule;
  }

  // It belongs before the first algorithm, or '^'.
  Status missing_colon() const {
    size_t ahead = 0;
    while (!peek(ahead).text.empty() && !peek(ahead).is(';') && !peek(ahead).is('^') &&
           algorithm_of(peek(ahead).text) < 0)
      ++ahead;
    const Token& token = peek(ahead);
    return {Code::kInvalidArgument,
            fmt::format("missing ':' at position {}, before {}; valid: COLLECTIVES and conditions, "
                        "':', ALGORITHMS, as in 'allreduce size=0-32K: ring'",
                        token.position, token.text.empty() ? "the end" : quoted(token.text))};
  }

  // The token after the last is the last: the end never ends.
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }

  bool has_condition() const {
    for (size_t ahead = 0; !peek(ahead).text.empty() && !peek(ahead).is(';'); ++ahead)
      if (peek(ahead).is(':')) return true;
    return false;
  }

  bool at_range() const { return peek().word() && peek(1).is('='); }

  Status condition(Rule& rule) {
    if (!at_range() && !peek().is(':')) BANYAN_TRY(collectives(rule));
    std::vector<std::string_view> given;
    while (at_range()) {
      const Token key = peek();
      std::string_view form;
      for (const std::string_view each :
           {kSizeForm, kRanksForm, kNodesForm, kPpnForm, kTypesForm, kMemoryForm})
        if (same_word(each.substr(0, each.find('=')), key.text)) form = each;
      if (form.empty()) return wrong("condition", key, kForms);
      if (std::find(given.begin(), given.end(), form) != given.end())
        return unexpected(key, fmt::format("{} once", form));
      given.push_back(form);
      BANYAN_TRY(form == kSizeForm ? size_range(rule)
                 : form == kRanksForm
                     ? count_range("number of ranks", form, &rule.ranks_least, &rule.ranks_most)
                 : form == kNodesForm
                     ? count_range("number of nodes", form, &rule.nodes_least, &rule.nodes_most)
                 : form == kPpnForm
                     ? count_range("ranks of a node", form, &rule.ppn_least, &rule.ppn_most)
                 : form == kTypesForm ? types(rule)
                                      : memories(rule));
    }
    if (!peek().is(':')) return unexpected(peek(), fmt::format("{} or ':'", kForms));
    ++at_;
    return {};
  }

  Status types(Rule& rule) {
    at_ += 2;  // the key and its '='
    for (;; ++at_) {
      const Token token = peek();
      const Result<DataType> type = parse_data_type(token.text);
      if (!type.ok()) return wrong("type", token, type_names());
      rule.types.push_back(*type);
      ++at_;
      if (!peek().is(',')) return {};
    }
  }

  Status memories(Rule& rule) {
    at_ += 2;  // the key and its '='
    for (;; ++at_) {
      const Token token = peek();
      const auto found =
          std::find_if(std::begin(kMemoryNames), std::end(kMemoryNames),
                       [&](std::string_view name) { return same_word(name, token.text); });
      if (found == std::end(kMemoryNames)) return wrong("memory", token, join(kMemoryNames));
      rule.memories.push_back(kMemoryKinds[found - std::begin(kMemoryNames)]);
      ++at_;
      if (!peek().is(',')) return {};
    }
  }

  Status collectives(Rule& rule) {
    bool any = false;
    for (;; ++at_) {
      const Token token = peek();
      const Result<Collective> collective = parse_collective(token.text);
      if (token.text == "*") {
        any = true;
      } else if (collective.ok() && static_cast<int>(*collective) < kNamedCollectives) {
        rule.collectives.push_back(*collective);
      } else {
        return wrong("collective", token, collective_names());
      }
      ++at_;
      if (!peek().is(',')) break;
    }
    if (any) rule.collectives.clear();
    return {};
  }

  struct Range {
    Token least;
    Token most;  // no word: open
  };

  Result<Range> range(std::string_view what, std::string_view form) {
    at_ += 2;  // the key and its '='
    Range found{peek(), {}};
    if (!found.least.word()) return wrong(what, found.least, form);
    ++at_;
    if (!peek().is('-')) return unexpected(peek(), form);
    ++at_;
    if (peek().word() && !at_range()) {
      found.most = peek();
      ++at_;
    }
    return found;
  }

  Status size_range(Rule& rule) {
    const Token key = peek();
    Result<Range> found = range("size", kSizeForm);
    BANYAN_TRY(found.status());
    for (const Token& token : {found->least, found->most}) {
      if (!token.word()) continue;
      const Result<uint64_t> size = parse_size(token.text);
      if (!size.ok())
        return unexpected(token, fmt::format("{} in bytes, with K, M or G", kSizeForm));
      (token.position == found->least.position ? rule.size_least : rule.size_most) = *size;
    }
    if (rule.size_least > rule.size_most) return reversed(*found, kSizeForm);
    const auto& list = rule.collectives;
    const bool counts_differ =
        !list.empty() && std::all_of(list.begin(), list.end(), [](Collective collective) {
          return collective == Collective::kAlltoallv;
        });
    if (counts_differ && (rule.size_least > 0 || rule.size_most < UINT64_MAX))
      return unexpected(key, "alltoallv without a size, since each rank knows only its own counts");
    return {};
  }

  Status count_range(std::string_view what, std::string_view form, int* least, int* most) {
    Result<Range> found = range(what, form);
    BANYAN_TRY(found.status());
    for (const Token& token : {found->least, found->most}) {
      if (!token.word()) continue;
      constexpr int kMost = std::numeric_limits<int>::max();
      const Result<int64_t> count = parse_integer(token.text, 0, kMost);
      if (!count.ok()) return unexpected(token, fmt::format("{} up to {}", form, kMost));
      *(token.position == found->least.position ? least : most) = static_cast<int>(*count);
    }
    return *least <= *most ? Status() : reversed(*found, form);
  }

  static Status reversed(const Range& range, std::string_view form) {
    return {Code::kInvalidArgument,
            fmt::format("empty range '{}-{}' at position {}; valid: {}, LO at most HI",
                        range.least.text, range.most.text, range.least.position, form)};
  }

  Status choice(Rule& rule) {
    const Token first = peek();
    rule.excluding = first.is('^');
    if (rule.excluding) ++at_;
    for (;; ++at_) {
      const Token token = peek();
      if (token.is('^'))
        return unexpected(token, "one '^' before the first name, for all names of the rule");
      const int algorithm = algorithm_of(token.text);
      if (algorithm < 0)
        return wrong("algorithm", token,
                     algorithm_names() + (variable_ ? fmt::format(", {}", kExplain) : ""));
      BANYAN_TRY(check_use(rule, algorithm, token));
      rule.algorithms.push_back(algorithm);
      ++at_;
      Result<Parameters> parameters =
          parameters_of(rule, algorithms()[static_cast<size_t>(algorithm)]);
      BANYAN_TRY(parameters.status());
      rule.parameters.push_back(*parameters);
      if (!peek().is(',')) break;
    }
    if (!peek().text.empty() && !peek().is(';')) return unexpected(peek(), "',' or ';'");
    return check_rest(rule, first);
  }

  // What stands in parentheses behind a name, or nothing does.
  Result<Parameters> parameters_of(const Rule& rule, const Algorithm& algorithm) {
    Parameters parameters;
    if (!peek().is('(')) return parameters;
    if (rule.excluding) return unexpected(peek(), "names without parameters after '^'");
    const std::string forms = forms_of(algorithm);
    if (forms.empty())
      return unexpected(peek(), fmt::format("{} alone, which takes no parameters", algorithm.name));
    std::vector<ParameterKey> given;
    do {
      ++at_;  // the parenthesis or the comma
      const Token word = peek();
      const std::optional<ParameterKey> key = key_of(algorithm, word.text);
      if (!key) return wrong("parameter", word, forms);
      if (std::find(given.begin(), given.end(), *key) != given.end())
        return unexpected(word, fmt::format("{} once", form_of(*key)));
      given.push_back(*key);
      BANYAN_TRY(check_use(rule, algorithm, *key, word));
      ++at_;
      if (!peek().is('=')) return unexpected(peek(), form_of(*key));
      ++at_;
      const Token value = peek();
      const Result<Parameters> more = with_parameter(parameters, *key, value.text);
      if (!more.ok()) return unexpected(value, more.status().message());
      parameters = *more;
      ++at_;
    } while (peek().is(','));
    if (!peek().is(')')) return unexpected(peek(), "',' or ')'");
    ++at_;
    return parameters;
  }

  static std::optional<ParameterKey> key_of(const Algorithm& algorithm, std::string_view word) {
    for (int i = 0; i < kParameterKeyCount; ++i) {
      const auto key = static_cast<ParameterKey>(i);
      if (algorithm.takes(key) && same_word(name_of(key), word)) return key;
    }
    return std::nullopt;
  }

  std::vector<Token> tokens_;
  bool variable_;
  size_t at_ = 0;
};

Result<AlgorithmVariable> parse(std::string_view text, bool variable) {
  if (text.size() > kMostRulesText)
    return Status(Code::kInvalidArgument, fmt::format("{} characters of rules; valid: at most {}",
                                                      text.size(), kMostRulesText));
  return Parser(text, variable).parse();
}

}  // namespace

Status has_none_for(Collective collective, std::string_view text) {
  return {Code::kInvalidArgument,
          fmt::format("algorithm {} has none for {}; valid: {}", quoted(text), name_of(collective),
                      names_that_fit({collective}))};
}

Result<Rules> parse_rules(std::string_view text) {
  Result<AlgorithmVariable> read = parse(text, false);
  BANYAN_TRY(read.status());
  return std::move(read->rules);
}

Result<AlgorithmVariable> parse_algorithm_variable(std::string_view text) {
  return parse(text, true);
}

}  // namespace banyan
