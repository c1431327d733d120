// Ranks tell each other everything in this little-endian form. A Reader never reads past its end:
// it turns bad, and stays bad, and every value read from then on is zero.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace banyan {

static_assert(std::endian::native == std::endian::little,
              "what ranks send each other is little-endian");

using Bytes = std::vector<std::byte>;

class Writer {
 public:
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  void put_raw(std::span<const std::byte> raw) {
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  // Length (32 bits), then the bytes.
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<uint32_t>(bytes.size()));
    put_raw(bytes);
  }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T> T get() {
    T value{};
    const auto raw = get_raw(sizeof value);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> get_raw(size_t size) {
    if (bad_ || size > rest_.size()) {
      bad_ = true;
      return {};
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<const std::byte> get_bytes(size_t most) {
    const auto size = get<uint32_t>();
    if (size > most) bad_ = true;
    return get_raw(size);
  }
  std::string get_text(size_t most) {
    const auto raw = get_bytes(most);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  bool bad() const { return bad_; }
  bool at_end() const { return !bad_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool bad_ = false;
};

}  // namespace banyan
