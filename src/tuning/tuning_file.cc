// SPDX-License-Identifier: Apache-2.0

#include "src/tuning/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "compression/grammar.h"
#include "src/base/file.h"
#include "src/base/json_value.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

using Kind = JsonValue::Kind;
using Words = std::vector<std::string_view>;

// The file is an object with arrays of objects. A rule has at most seven members. A link has eight,
// and links are two and one beyond each tier. A codec and a time have three. A host of a ring is
// one value.
constexpr JsonLimits kTuningLimits = {.depth = 4,
                                      .values = 42 + 9 * kMostTiers + 4 * kMostTunedCodecs +
                                                4 * kMostCodecTimes + 8 * kMostTuningRules +
                                                kMostRingHosts};
constexpr std::string_view kBeyond = "beyond ";  // and the name of a level
constexpr size_t kMostNameText = 256;            // of names
constexpr double kMostWhole = 9007199254740992;  // 2^53: exact in a double
// Figures of a link, and of sums, lie between these, so that predictions are finite.
constexpr double kLeastFigure = 1e-6, kMostFigure = 1e9;
constexpr double kMostNumber = 1 << 30;

Status wrong_at(const JsonValue& value, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", value.line, what)};
}

std::string shown(std::string_view text) {
  return printable(text.substr(0, 80));
}

Status expect_kind(const JsonValue& value, Kind kind) {
  if (value.kind == kind) return {};
  return wrong_at(value, fmt::format("'{}' is {}; right is {}", shown(value.key),
                                     name_of(value.kind), name_of(kind)));
}

// An object with no other members than these; the first `required` must be there.
Status expect_members(const JsonValue& object, std::string_view what, const Words& members,
                      size_t required) {
  if (object.kind != Kind::kObject)
    return wrong_at(object,
                    fmt::format("{} is {}; right is an object", what, name_of(object.kind)));
  for (const JsonValue& child : object.children)
    if (std::find(members.begin(), members.end(), child.key) == members.end())
      return wrong_at(child, fmt::format("{} has no member '{}'; valid: {}", what, shown(child.key),
                                         join(members)));
  for (size_t i = 0; i < required; ++i)
    if (object.find(members[i]) == nullptr)
      return wrong_at(object, fmt::format("{} without the member '{}'", what, members[i]));
  return {};
}

// Members that are not there leave what they are read into.
Status read_text(const JsonValue& object, std::string_view key, std::string* text) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return {};
  BANYAN_TRY(expect_kind(*value, Kind::kString));
  if (value->text.size() > kMostNameText || printable(value->text) != value->text)
    return wrong_at(*value, fmt::format("'{}' is longer than {} bytes or holds a control character",
                                        key, kMostNameText));
  *text = value->text;
  return {};
}

Status read_number(const JsonValue& object, std::string_view key, double* number) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return {};
  BANYAN_TRY(expect_kind(*value, Kind::kNumber));
  if (!std::isfinite(value->number) || value->number < 0)
    return wrong_at(*value,
                    fmt::format("'{}' is {}; right is a number from 0", key, value->number));
  *number = value->number;
  return {};
}

template <typename Whole>
Status read_whole(const JsonValue& object, std::string_view key, double most, Whole* whole) {
  double number = static_cast<double>(*whole);
  BANYAN_TRY(read_number(object, key, &number));
  if (number > most || std::floor(number) != number)
    return wrong_at(*object.find(key), fmt::format("'{}' is {}; right is a whole number from 0 to "
                                                   "{}",
                                                   key, number, most));
  *whole = static_cast<Whole>(number);
  return {};
}

Status read_fingerprint(const JsonValue& json, Fingerprint* fingerprint) {
  BANYAN_TRY(expect_members(json, "'fingerprint'",
                            {"cpu", "cores", "ranks", "hosts", "transports", "ppn"}, 5));
  BANYAN_TRY(read_text(json, "cpu", &fingerprint->cpu));
  BANYAN_TRY(read_whole(json, "cores", kMostNumber, &fingerprint->cores));
  BANYAN_TRY(read_whole(json, "ranks", kMostNumber, &fingerprint->ranks));
  BANYAN_TRY(read_whole(json, "hosts", kMostNumber, &fingerprint->hosts));
  BANYAN_TRY(read_whole(json, "ppn", kMostNumber, &fingerprint->ppn));
  return read_text(json, "transports", &fingerprint->transports);
}

// Exactly one.
Result<Rule> parse_rule(std::string_view text) {
  Result<Rules> parsed = parse_rules(text);
  BANYAN_TRY(parsed.status());
  if (parsed->size() == 1) return std::move(parsed->front());
  return Status(Code::kInvalidArgument,
                fmt::format("{} rules in one text; valid: one, without ';'", parsed->size()));
}

Status read_rule(const JsonValue& json, size_t number, TuningRule* rule) {
  const std::string what = fmt::format("rule {}", number);
  BANYAN_TRY(expect_members(
      json, what, {"rule", "bytes", "measured_us", "runs", "runner_up", "runner_up_us"}, 1));
  const JsonValue& text = *json.find("rule");
  BANYAN_TRY(expect_kind(text, Kind::kString));
  const Result<Rule> parsed = parse_rule(text.text);
  if (!parsed.ok())
    return wrong_at(text, fmt::format("{}: {}", what, printable(parsed.status().message())));
  rule->text = trim(text.text);
  Measured measured;
  BANYAN_TRY(read_whole(json, "bytes", kMostWhole, &measured.bytes));
  BANYAN_TRY(read_number(json, "measured_us", &measured.us));
  BANYAN_TRY(read_whole(json, "runs", kMostWhole, &measured.runs));
  BANYAN_TRY(read_text(json, "runner_up", &measured.runner_up));
  BANYAN_TRY(read_number(json, "runner_up_us", &measured.runner_up_us));
  if (json.find("measured_us") != nullptr) rule->measured = std::move(measured);
  return {};
}

// A figure that something is divided by, or compared with.
Status read_positive(const JsonValue& object, std::string_view key, double* number) {
  BANYAN_TRY(read_number(object, key, number));
  if (!(*number >= kLeastFigure && *number <= kMostFigure))
    return wrong_at(*object.find(key), fmt::format("'{}' is {}; right is a number from {} to {}",
                                                   key, *number, kLeastFigure, kMostFigure));
  return {};
}

// The link of a level that is named for the first time.
Result<MeasuredLink*> add_tier(const JsonValue& json, const std::string& name,
                               MeasuredLinks* links) {
  std::vector<MeasuredTier>& tiers = links->beyond;
  if (name.empty() || name.size() > kMostTierName)
    return wrong_at(*json.find("where"), fmt::format("'where' is beyond '{}'; right is a level's "
                                                     "name of 1 to {} bytes",
                                                     shown(name), kMostTierName));
  if (std::any_of(tiers.begin(), tiers.end(), [&](const auto& tier) { return tier.name == name; }))
    return wrong_at(json, fmt::format("a second link 'beyond {}'", shown(name)));
  if (tiers.size() == kMostTiers)
    return wrong_at(json, fmt::format("links beyond more than {} levels; valid: at most {}",
                                      kMostTiers, kMostTiers));
  tiers.push_back({.name = name});
  return &tiers.back().link;
}

// Where the figures of that link go.
Result<MeasuredLink*> add_link(const JsonValue& json, MeasuredLinks* links) {
  std::string where;
  BANYAN_TRY(read_text(json, "where", &where));
  if (where.starts_with(kBeyond)) return add_tier(json, where.substr(kBeyond.size()), links);
  if (where != "within" && where != "between")
    return wrong_at(
        *json.find("where"),
        fmt::format("'where' is '{}'; valid: within, between, beyond LEVEL", shown(where)));
  auto& link = where == "within" ? links->within : links->between;
  if (link) return wrong_at(json, fmt::format("a second link '{}'", where));
  return &link.emplace();
}

Status read_link(const JsonValue& json, MeasuredLinks* links) {
  BANYAN_TRY(expect_members(json, "a link",
                            {"where", "latency_us", "busy_latency_us", "message_us", "GBps",
                             "busy_GBps", "pairs", "spread"},
                            8));
  const Result<MeasuredLink*> added = add_link(json, links);
  BANYAN_TRY(added.status());
  MeasuredLink* link = *added;
  BANYAN_TRY(read_positive(json, "latency_us", &link->latency_us));
  BANYAN_TRY(read_positive(json, "busy_latency_us", &link->busy_latency_us));
  BANYAN_TRY(read_number(json, "message_us", &link->message_us));
  if (link->message_us > kMostFigure)
    return wrong_at(*json.find("message_us"),
                    fmt::format("'message_us' is {}; right is a number from 0 to {}",
                                link->message_us, kMostFigure));
  BANYAN_TRY(read_positive(json, "GBps", &link->GBps));
  BANYAN_TRY(read_positive(json, "busy_GBps", &link->busy_GBps));
  BANYAN_TRY(read_whole(json, "pairs", kMostNumber, &link->pairs));
  if (link->pairs == 0) return wrong_at(*json.find("pairs"), "'pairs' is 0; right is 1 or more");
  return read_number(json, "spread", &link->spread);
}

Status read_sums(const JsonValue& json, MeasuredLinks* links) {
  BANYAN_TRY(expect_members(json, "'sums'", {"GBps", "far_GBps"}, 2));
  MeasuredSums& sums = links->sums.emplace();
  BANYAN_TRY(read_positive(json, "GBps", &sums.GBps));
  return read_positive(json, "far_GBps", &sums.far_GBps);
}

Status read_codec(const JsonValue& json, std::vector<MeasuredCodec>* codecs) {
  BANYAN_TRY(expect_members(json, "a codec", {"codec", "encode_GBps", "decode_GBps"}, 3));
  std::string name;
  BANYAN_TRY(read_text(json, "codec", &name));
  const Result<CodecChoice> choice = parse_codec(name);
  if (!choice.ok()) return wrong_at(*json.find("codec"), choice.status().message());
  if (choice->is_exact() || text_of(*choice).size() > kMostCodecName)
    return wrong_at(*json.find("codec"),
                    fmt::format("'codec' is '{}'; right is a codec, in at most "
                                "{} bytes",
                                shown(name), kMostCodecName));
  const auto is_same = [&](const MeasuredCodec& each) { return each.choice == *choice; };
  if (std::any_of(codecs->begin(), codecs->end(), is_same))
    return wrong_at(json, fmt::format("a second codec '{}'", shown(name)));
  if (codecs->size() == kMostTunedCodecs)
    return wrong_at(json, fmt::format("more codecs than {}; valid: at most {}", kMostTunedCodecs,
                                      kMostTunedCodecs));
  MeasuredCodec& codec = codecs->emplace_back(MeasuredCodec{.choice = *choice});
  BANYAN_TRY(read_positive(json, "encode_GBps", &codec.encode_GBps));
  return read_positive(json, "decode_GBps", &codec.decode_GBps);
}

Status read_codec_time(const JsonValue& json, std::vector<CodecTime>* times) {
  BANYAN_TRY(expect_members(json, "a time of a codec", {"codec", "bytes", "us"}, 3));
  std::string name;
  BANYAN_TRY(read_text(json, "codec", &name));
  const Result<CodecChoice> choice = parse_codec(name);
  if (!choice.ok()) return wrong_at(*json.find("codec"), choice.status().message());
  if (text_of(*choice).size() > kMostCodecName)
    return wrong_at(*json.find("codec"), fmt::format("'codec' is '{}'; right is at most {} bytes",
                                                     shown(name), kMostCodecName));
  CodecTime time{.choice = *choice};
  BANYAN_TRY(read_whole(json, "bytes", kMostWhole, &time.bytes));
  BANYAN_TRY(read_positive(json, "us", &time.us));
  const auto is_same = [&](const CodecTime& each) {
    return each.choice == time.choice && each.bytes == time.bytes;
  };
  if (time.bytes == 0)
    return wrong_at(*json.find("bytes"), "'bytes' is 0; right is a whole number from 1");
  if (std::any_of(times->begin(), times->end(), is_same))
    return wrong_at(json,
                    fmt::format("a second time of '{}' for {} bytes", shown(name), time.bytes));
  if (times->size() == kMostCodecTimes)
    return wrong_at(json, fmt::format("more times of codecs than {}; valid: at most {}",
                                      kMostCodecTimes, kMostCodecTimes));
  times->push_back(time);
  return {};
}

Status read_ring(const JsonValue& json, std::vector<std::string>* ring) {
  BANYAN_TRY(expect_kind(json, Kind::kArray));
  if (json.children.size() > kMostRingHosts)
    return wrong_at(json, fmt::format("'ring' names {} hosts; valid: at most {}",
                                      json.children.size(), kMostRingHosts));
  size_t letters = 0;
  for (const JsonValue& host : json.children) {
    if (host.kind != Kind::kString)
      return wrong_at(host, fmt::format("a host of 'ring' is {}; right is {}", name_of(host.kind),
                                        name_of(Kind::kString)));
    const std::string& name = host.text;
    if (name.empty() || name.size() > kMostNameText || printable(name) != name)
      return wrong_at(host, fmt::format("'ring' names '{}'; right is a host's name of 1 to {} "
                                        "bytes without control characters",
                                        shown(name), kMostNameText));
    if (std::find(ring->begin(), ring->end(), name) != ring->end())
      return wrong_at(host, fmt::format("'ring' names '{}' twice", shown(name)));
    letters += name.size();
    ring->push_back(name);
  }
  if (letters <= kMostRingText) return {};
  return wrong_at(json, fmt::format("{} characters of names in 'ring'; valid: at most {}", letters,
                                    kMostRingText));
}

Status about_file(const std::string& path, const Status& status) {
  return {status.code(), fmt::format("{}: {}", printable(path), status.message())};
}

void add_difference(std::string& text, bool differs, const std::string& what) {
  if (differs) text += fmt::format("{}{}", text.empty() ? "" : ", ", what);
}

std::string or_unknown(const std::string& text) {
  return text.empty() ? "an unknown one" : printable(text);
}

std::string rule_json(const TuningRule& rule) {
  std::string json = fmt::format("    {{\"rule\": {}", json_string(rule.text));
  if (rule.measured) {
    const Measured& measured = *rule.measured;
    json += fmt::format(",\n     \"bytes\": {}, \"measured_us\": {:.3f}, \"runs\": {}",
                        measured.bytes, measured.us, measured.runs);
    if (!measured.runner_up.empty())
      json += fmt::format(", \"runner_up\": {}, \"runner_up_us\": {:.3f}",
                          json_string(measured.runner_up), measured.runner_up_us);
  }
  return json + "}";
}

std::string link_json(std::string_view where, const MeasuredLink& link) {
  return fmt::format(
      "    {{\"where\": {}, \"latency_us\": {:.6g}, \"busy_latency_us\": {:.6g}, \"message_us\": "
      "{:.6g},\n     \"GBps\": {:.6g}, \"busy_GBps\": {:.6g}, \"pairs\": {}, \"spread\": {:.3g}}}",
      json_string(where), link.latency_us, link.busy_latency_us, link.message_us, link.GBps,
      link.busy_GBps, link.pairs, link.spread);
}

std::string links_json(const MeasuredLinks& links) {
  std::vector<std::string> each;
  if (links.within) each.push_back(link_json("within", *links.within));
  if (links.between) each.push_back(link_json("between", *links.between));
  for (const MeasuredTier& tier : links.beyond)
    each.push_back(link_json(fmt::format("{}{}", kBeyond, tier.name), tier.link));
  if (each.empty()) return "";
  return fmt::format("  \"links\": [\n{}\n  ],\n", fmt::join(each.begin(), each.end(), ",\n"));
}

std::string sums_json(const std::optional<MeasuredSums>& sums) {
  if (!sums) return "";
  return fmt::format("  \"sums\": {{\"GBps\": {:.6g}, \"far_GBps\": {:.6g}}},\n", sums->GBps,
                     sums->far_GBps);
}

std::string codecs_json(const std::vector<MeasuredCodec>& codecs) {
  if (codecs.empty()) return "";
  std::vector<std::string> each;
  for (const MeasuredCodec& codec : codecs)
    each.push_back(
        fmt::format("    {{\"codec\": {}, \"encode_GBps\": {:.6g}, \"decode_GBps\": {:.6g}}}",
                    json_string(text_of(codec.choice)), codec.encode_GBps, codec.decode_GBps));
  return fmt::format("  \"codecs\": [\n{}\n  ],\n", fmt::join(each.begin(), each.end(), ",\n"));
}

std::string codec_times_json(const std::vector<CodecTime>& times) {
  if (times.empty()) return "";
  std::vector<std::string> each;
  for (const CodecTime& time : times)
    each.push_back(fmt::format("    {{\"codec\": {}, \"bytes\": {}, \"us\": {:.6g}}}",
                               json_string(time.choice.is_exact() ? "off" : text_of(time.choice)),
                               time.bytes, time.us));
  return fmt::format("  \"codec_times\": [\n{}\n  ],\n",
                     fmt::join(each.begin(), each.end(), ",\n"));
}

std::string ring_json(const std::vector<std::string>& ring) {
  if (ring.empty()) return "";
  std::string names;
  for (const std::string& name : ring)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", json_string(name));
  return fmt::format("  \"ring\": [{}],\n", names);
}

}  // namespace

std::string difference(const Fingerprint& tuned, const Fingerprint& here) {
  std::string text;
  add_difference(
      text, tuned.cpu != here.cpu,
      fmt::format("processor {} instead of {}", or_unknown(here.cpu), or_unknown(tuned.cpu)));
  add_difference(text, tuned.cores != here.cores,
                 fmt::format("{} cores instead of {}", here.cores, tuned.cores));
  add_difference(text, tuned.ranks != here.ranks,
                 fmt::format("{} ranks instead of {}", here.ranks, tuned.ranks));
  add_difference(text, tuned.hosts != here.hosts,
                 fmt::format("{} hosts instead of {}", here.hosts, tuned.hosts));
  add_difference(text, tuned.ppn != 0 && here.ppn != 0 && tuned.ppn != here.ppn,
                 fmt::format("at most {} ranks of a host instead of {}", here.ppn, tuned.ppn));
  add_difference(text, tuned.transports != here.transports,
                 fmt::format("transports {} instead of {}", or_unknown(here.transports),
                             or_unknown(tuned.transports)));
  return text;
}

std::string TuningFile::table() const {
  std::string text;
  for (const TuningRule& rule : rules)
    text += fmt::format("{}{}", text.empty() ? "" : "; ", rule.text);
  return text;
}

MeasuredTimes TuningFile::measured() const {
  MeasuredTimes times;
  for (const TuningRule& rule : rules) times.push_back(rule.measured);
  return times;
}

std::string to_json(const TuningFile& file) {
  const Fingerprint& tuned = file.tuned_on;
  std::string json = fmt::format(
      "{{\n  \"schema\": {},\n  \"library\": {},\n  \"fingerprint\": {{\"cpu\": {}, \"cores\": {}, "
      "\"ranks\": {}, \"hosts\": {}, \"transports\": {}{}}},\n{}{}{}{}{}  \"rules\": [",
      kTuningSchema, json_string(file.version), json_string(tuned.cpu), tuned.cores, tuned.ranks,
      tuned.hosts, json_string(tuned.transports),
      tuned.ppn == 0 ? "" : fmt::format(", \"ppn\": {}", tuned.ppn), links_json(file.links),
      sums_json(file.links.sums), codecs_json(file.links.codecs),
      codec_times_json(file.codec_times), ring_json(file.ring));
  std::string_view separator = "\n";
  for (const TuningRule& rule : file.rules) {
    json += separator;
    json += rule_json(rule);
    separator = ",\n";
  }
  return json + (file.rules.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

Result<TuningFile> parse_tuning(std::string_view text) {
  if (text.size() > kMostTuningBytes)
    return Status(Code::kInvalidArgument, fmt::format("larger than {} bytes", kMostTuningBytes));
  const Result<JsonValue> root = parse_json(text, kTuningLimits);
  BANYAN_TRY(root.status());
  // The schema first: another version may have other members.
  if (root->kind != Kind::kObject || root->find("schema") == nullptr)
    return wrong_at(*root, "not a tuning file: right is an object with the member 'schema'");
  const JsonValue& schema = *root->find("schema");
  if (schema.kind != Kind::kNumber || schema.number != kTuningSchema)
    return wrong_at(schema, fmt::format("this version reads schema {} only", kTuningSchema));
  BANYAN_TRY(expect_members(*root, "a tuning file",
                            {"schema", "fingerprint", "rules", "library", "links", "sums", "codecs",
                             "codec_times", "ring"},
                            3));
  TuningFile file;
  BANYAN_TRY(read_text(*root, "library", &file.version));
  BANYAN_TRY(read_fingerprint(*root->find("fingerprint"), &file.tuned_on));
  if (const JsonValue* links = root->find("links"); links != nullptr) {
    BANYAN_TRY(expect_kind(*links, Kind::kArray));
    for (const JsonValue& link : links->children) BANYAN_TRY(read_link(link, &file.links));
  }
  if (const JsonValue* sums = root->find("sums"); sums != nullptr)
    BANYAN_TRY(read_sums(*sums, &file.links));
  if (const JsonValue* codecs = root->find("codecs"); codecs != nullptr) {
    BANYAN_TRY(expect_kind(*codecs, Kind::kArray));
    for (const JsonValue& codec : codecs->children)
      BANYAN_TRY(read_codec(codec, &file.links.codecs));
  }
  if (const JsonValue* times = root->find("codec_times"); times != nullptr) {
    BANYAN_TRY(expect_kind(*times, Kind::kArray));
    for (const JsonValue& time : times->children)
      BANYAN_TRY(read_codec_time(time, &file.codec_times));
  }
  if (const JsonValue* ring = root->find("ring"); ring != nullptr)
    BANYAN_TRY(read_ring(*ring, &file.ring));
  const JsonValue& rules = *root->find("rules");
  BANYAN_TRY(expect_kind(rules, Kind::kArray));
  if (rules.children.size() > kMostTuningRules)
    return wrong_at(
        rules, fmt::format("{} rules; valid: at most {}", rules.children.size(), kMostTuningRules));
  for (const JsonValue& rule : rules.children) {
    TuningRule& read = file.rules.emplace_back();
    BANYAN_TRY(read_rule(rule, file.rules.size(), &read));
  }
  if (const size_t length = file.table().size(); length > kMostTableText)
    return wrong_at(
        rules, fmt::format("{} characters of rules; valid: at most {}", length, kMostTableText));
  return file;
}

Result<Rules> parse_table(std::string_view table, const MeasuredTimes& measured) {
  Rules rules;
  if (table.empty()) return rules;
  for (const std::string_view text : split(table, ';')) {
    Result<Rule> rule = parse_rule(text);
    if (!rule.ok())
      return Status(rule.status().code(),
                    fmt::format("rule {}: {}", rules.size() + 1, rule.status().message()));
    if (rules.size() < measured.size()) rule->measured = measured[rules.size()];
    rules.push_back(std::move(*rule));
  }
  return rules;
}

Result<TuningFile> read_tuning_file(const std::string& path) {
  const Result<std::string> text = read_file(path, kMostTuningBytes);
  if (!text.ok()) return about_file(path, text.status());
  Result<TuningFile> file = parse_tuning(*text);
  if (!file.ok()) return about_file(path, file.status());
  return file;
}

Status write_tuning_file(const std::string& path, const TuningFile& file) {
  const Status status = replace_file(path, to_json(file));
  return status.ok() ? status : about_file(path, status);
}

}  // namespace banyan
