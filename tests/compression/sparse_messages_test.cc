// Messages of sparse codecs that are none: of each thing that holds for a message, one that breaks
// it. They are refused, and nothing is written.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/sparse_reference.h"

namespace banyan::sparse_messages_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr uint64_t kCount = 65'536 + 4'101;

void put16(Memory& memory, size_t at, uint16_t value) {
  std::memcpy(&memory[at], &value, sizeof value);
}

void put32(Memory& memory, size_t at, uint32_t value) {
  std::memcpy(&memory[at], &value, sizeof value);
}

uint32_t get32(const Memory& memory, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, &memory[at], sizeof value);
  return value;
}

// Ones at all places that `every` divides.
Memory ones(uint64_t every) {
  Memory values(kCount * sizeof(float));
  for (uint64_t i = 0; i < kCount; i += every) {
    put_bits(kF32, &values[i * sizeof(float)], rounded_bits(kF32, 1));
  }
  return values;
}

struct Damage {
  const char* what;
  std::function<void(Message&)> inflict;
};

class Hostile : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec(CodecId id) { return GetParam()->codecs[id - size_t{1}]; }

  static bool is_taken(const Codec& codec, const Coding& coding, const Message& message,
                       uint64_t count) {
    const Memory untouched(kCount * sizeof(float), std::byte{0x5a});
    Memory to = untouched;
    // Ends where its memory ends, for who looks on.
    const Memory bytes(message.bytes.begin(), message.bytes.end());
    const CodecMessage view = {bytes.data(), bytes.size(), message.said.flags};
    const bool decoded = codec.decode(coding, kF32, view, count, to.data());
    EXPECT_TRUE(decoded || to == untouched);
    to = untouched;
    const bool added = codec.decode_add(coding, kF32, view, count, to.data(), to.data());
    EXPECT_TRUE(added || to == untouched);
    EXPECT_EQ(decoded, added);
    return decoded || added;
  }

  static void expect_refused(CodecId id, const Coding& coding, const Memory& values, uint8_t flags,
                             const std::vector<Damage>& damages) {
    const Message message = encoded(codec(id), coding, kF32, values);
    ASSERT_EQ(message.said.flags, flags);
    ASSERT_TRUE(is_taken(codec(id), coding, message, kCount));
    for (const auto& [what, inflict] : damages) {
      Message damaged = message;
      inflict(damaged);
      EXPECT_FALSE(is_taken(codec(id), coding, damaged, kCount)) << codec(id).name << ": " << what;
    }
    for (const uint64_t count : {0U, 65'536U, 69'000U}) {
      EXPECT_FALSE(is_taken(codec(id), coding, message, count)) << codec(id).name << " " << count;
    }
  }
};

std::vector<Damage> to_any() {
  return {
      {"a byte more", [](Message& m) { m.bytes.push_back({}); }},
      {"a byte less", [](Message& m) { m.bytes.pop_back(); }},
      {"half of it", [](Message& m) { m.bytes.resize(m.bytes.size() / 2); }},
      {"nothing", [](Message& m) { m.bytes.clear(); }},
      {"no such form", [](Message& m) { m.said.flags = 3; }},
      {"a flag of nobody", [](Message& m) { m.said.flags |= 8; }},
      {"NaN with values", [](Message& m) { m.said.flags = 4; }},
      {"NaN in a form", [](Message& m) { m.said.flags |= 0x84; }},
  };
}

// What breaks lists that say the places 0, 1000, 2000 and so on, in regions of so many.
std::vector<Damage> to_lists(uint32_t region) {
  const size_t counts = (kCount + region - 1) / region * 4;
  std::vector<Damage> damages = to_any();
  const std::vector<Damage> more = {
      {"a place less said", [](Message& m) { put32(m.bytes, 0, get32(m.bytes, 0) - 1); }},
      {"a place more said", [](Message& m) { put32(m.bytes, 0, get32(m.bytes, 0) + 1); }},
      {"a region with more than it has", [=](Message& m) { put32(m.bytes, 0, region + 1); }},
      {"a count without end", [](Message& m) { put32(m.bytes, 0, 0xffff'ffff); }},
      {"counts whose sum wraps",
       [=](Message& m) {
         put32(m.bytes, 0, get32(m.bytes, 0) + 0x8000'0000);
         put32(m.bytes, counts - 4, get32(m.bytes, counts - 4) + 0x8000'0000);
       }},
      {"one moved to the region before",
       [=](Message& m) {
         put32(m.bytes, 0, get32(m.bytes, 0) + 1);
         put32(m.bytes, 4, get32(m.bytes, 4) - 1);
       }},
      {"a place twice", [=](Message& m) { put16(m.bytes, counts + 2, 0); }},
      {"places out of order", [=](Message& m) { put16(m.bytes, counts + 2, 2001); }},
      {"a place again at the region's end",
       [=](Message& m) {
         const size_t last = counts + (get32(m.bytes, 0) - size_t{1}) * 2;
         put16(m.bytes, last - 2, static_cast<uint16_t>(region - 1));
         put16(m.bytes, last, static_cast<uint16_t>(region - 1));
       }},
      {"a place behind the last value",
       [=](Message& m) {
         size_t said = 0;
         for (size_t at = 0; at < counts; at += 4) said += get32(m.bytes, at);
         put16(m.bytes, counts + (said - 1) * 2, static_cast<uint16_t>(kCount % region));
       }},
  };
  damages.insert(damages.end(), more.begin(), more.end());
  return damages;
}

TEST_P(Hostile, ListsAreRefused) {
  for (const CodecId id : {kThreshold, kTopk, kNonzero}) {
    const Coding coding = {.parameter = id == kTopk ? 0.001 : 1};
    auto damages = to_lists(65'536);
    damages.push_back({"another form", [](Message& m) { m.said.flags = 1; }});
    damages.push_back({"another form", [](Message& m) { m.said.flags = 2; }});
    expect_refused(id, coding, ones(1000), 0, damages);
  }
  auto damages = to_lists(32'768);
  damages.push_back({"a bitmap", [](Message& m) { m.said.flags = 1; }});
  damages.push_back({"all values", [](Message& m) { m.said.flags = 2; }});
  expect_refused(kSign, {.parameter = 1}, ones(1000), 0, damages);
}

TEST_P(Hostile, BitmapsAreRefused) {
  for (const CodecId id : {kThreshold, kTopk, kNonzero}) {
    const Coding coding = {.parameter = id == kTopk ? 0.3 : 1};
    std::vector<Damage> damages = to_any();
    const size_t last = (kCount + 7) / 8 - 1;
    const std::vector<Damage> more = {
        {"another form", [](Message& m) { m.said.flags = 0; }},
        {"another form", [](Message& m) { m.said.flags = 2; }},
        {"a bit more", [](Message& m) { m.bytes[9] |= std::byte{0xff}; }},
        {"a bit less", [](Message& m) { m.bytes[0] &= std::byte{0xfe}; }},
        {"a bit behind the last value, and its value",
         [=](Message& m) {
           m.bytes[last] |= std::byte{0x80};
           m.bytes.resize(m.bytes.size() + sizeof(float));
         }},
    };
    damages.insert(damages.end(), more.begin(), more.end());
    expect_refused(id, coding, ones(3), 1, damages);
  }
}

TEST_P(Hostile, AllValuesAreRefused) {
  for (const CodecId id : {kThreshold, kTopk, kNonzero}) {
    std::vector<Damage> damages = to_any();
    damages.push_back({"another form", [](Message& m) { m.said.flags = 0; }});
    damages.push_back({"another form", [](Message& m) { m.said.flags = 1; }});
    expect_refused(id, {.parameter = 1}, ones(1), 2, damages);
  }
}

TEST_P(Hostile, ChosenValuesAreRefused) {
  std::vector<Damage> damages = to_any();
  damages.push_back({"a form", [](Message& m) { m.said.flags = 1; }});
  damages.push_back({"another form", [](Message& m) { m.said.flags = 2; }});
  expect_refused(kRandk, {.parameter = 0.01, .seed = 1}, ones(1), 0, damages);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Hostile, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::sparse_messages_test
