// Over nlohmann-json's SAX interface, which neither throws nor recurses.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/json_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/parse.h"

namespace banyan {

namespace {

// Knows where the lexer is. It reads one character past a number, so a value's line is that of the
// last character that is not blank.
struct Position {
  int line = 1;
  int last = 1;
};

class Letters {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names that std::iterator_traits looks for
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  Letters(const char* at, Position* position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  Letters& operator++() {
    if (*at_ == '\n') {
      ++position_->line;
    } else if (*at_ != ' ' && *at_ != '\t' && *at_ != '\r') {
      position_->last = position_->line;
    }
    ++at_;
    return *this;
  }
  Letters operator++(int) {
    Letters before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Letters& a, const Letters& b) { return a.at_ == b.at_; }
  friend bool operator!=(const Letters& a, const Letters& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  Position* position_;
};

// What nlohmann::json::sax_parse() calls, by its names; false ends the parsing.
class Builder {
 public:
  Builder(const JsonLimits& limits, const Position& position)
      : limits_(limits), position_(position) {}

  Result<JsonValue> take(bool good) {
    if (!good) return Status(Code::kInvalidArgument, error_.empty() ? "line 1: not JSON" : error_);
    return std::move(root_.children.front());
  }

  bool null() { return add(JsonValue::Kind::kNull) != nullptr; }
  bool boolean(bool value) {
    JsonValue* added = add(JsonValue::Kind::kBoolean);
    if (added != nullptr) added->boolean = value;
    return added != nullptr;
  }
  bool number_integer(int64_t value) { return number(static_cast<double>(value)); }
  bool number_unsigned(uint64_t value) { return number(static_cast<double>(value)); }
  bool number_float(double value, const std::string& /*text*/) { return number(value); }
  bool string(std::string& value) {
    JsonValue* added = add(JsonValue::Kind::kString);
    if (added != nullptr) added->text = std::move(value);
    return added != nullptr;
  }
  bool binary(std::vector<uint8_t>& /*value*/) { return false; }  // not in texts
  bool start_object(size_t /*elements*/) { return enter(JsonValue::Kind::kObject); }
  bool start_array(size_t /*elements*/) { return enter(JsonValue::Kind::kArray); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(std::string& value) {
    if (open_.back()->children.size() == kMostMembers)
      return refuse(fmt::format("an object with more than {} members", kMostMembers));
    if (open_.back()->find(value) != nullptr)
      return refuse(fmt::format("the key '{}' is there twice", printable(value.substr(0, 80))));
    key_ = std::move(value);
    return true;
  }
  template <typename Error>
  bool parse_error(size_t /*position*/, const std::string& /*token*/, const Error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    std::string_view what = error.what();
    const size_t colon = what.find(": ");
    if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
    return refuse(fmt::format("not JSON: {}", printable(what.substr(0, 160))));
  }

 private:
  static constexpr size_t kMostMembers = 1024;  // each is compared with all

  bool number(double value) {
    JsonValue* added = add(JsonValue::Kind::kNumber);
    if (added != nullptr) added->number = value;
    return added != nullptr;
  }

  bool refuse(const std::string& why) {
    if (error_.empty()) error_ = fmt::format("line {}: {}", position_.last, why);
    return false;
  }

  // Pointers into a tree that grows at its end only: whoever is open is the last of its parent.
  JsonValue* add(JsonValue::Kind kind) {
    if (++values_ > limits_.values) {
      refuse(fmt::format("more than {} values", limits_.values));
      return nullptr;
    }
    JsonValue& added = open_.back()->children.emplace_back();
    added.kind = kind;
    added.line = position_.last;
    added.key = std::exchange(key_, {});
    return &added;
  }

  bool enter(JsonValue::Kind kind) {
    if (static_cast<int>(open_.size()) > limits_.depth)
      return refuse(fmt::format("nested more than {} deep", limits_.depth));
    JsonValue* added = add(kind);
    if (added != nullptr) open_.push_back(added);
    return added != nullptr;
  }

  bool leave() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  const Position& position_;
  JsonValue root_;
  std::vector<JsonValue*> open_ = {&root_};
  std::string key_;
  std::string error_;
  size_t values_ = 0;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view member) const {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const JsonValue& child) { return child.key == member; });
  return kind != Kind::kObject || found == children.end() ? nullptr : &*found;
}

Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits) {
  Position position;
  Builder builder(limits, position);
  const char* end = text.data() + text.size();
  const bool good =
      nlohmann::json::sax_parse(Letters(text.data(), &position), Letters(end, &position), &builder);
  return builder.take(good);
}

std::string_view name_of(JsonValue::Kind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"null",     "true or false", "a number",
                                                      "a string", "an array",      "an object"};
  return kNames[static_cast<size_t>(kind)];
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace banyan
