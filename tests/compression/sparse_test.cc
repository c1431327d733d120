// What threshold and nonzero promise, by every instruction set: their messages, what they decode
// to, what they leave and what they add, against an independent reference; the shortest form, to
// the byte; sums at the cost of what is said; and a hash of everything.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/hash.h"
#include "tests/support/sparse_reference.h"

namespace banyan::sparse_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kFp16 = DataType::kFloat16;

class Sparse : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec(CodecId id) { return GetParam()->codecs[id - size_t{1}]; }
};

void expect_said(const Codec& codec, const Coding& coding, DataType type, const Memory& values,
                 const Kept& kept) {
  const uint64_t count = kept.size();
  const DataType carried = coding.carried;
  const Message wanted = said_in_forms(type, carried, values, kept);
  Memory left;
  const Message got = encoded(codec, coding, type, values, &left);
  ASSERT_EQ(got.said.flags, wanted.said.flags);
  ASSERT_EQ(got.said.kept, wanted.said.kept);
  ASSERT_EQ(got.said.nonfinite, wanted.said.nonfinite);
  ASSERT_EQ(got.bytes, wanted.bytes);
  ASSERT_EQ(left, left_of(type, carried, values, kept));
  for (const DataType target : kSparseTypes) {
    SCOPED_TRACE("into " + std::string(name_of(target)));
    ASSERT_EQ(decode(codec, coding, target, got, count),
              sent_of(type, carried, values, kept, target));
  }
  const Memory addend = sparse_values(type, count, count + 99);
  Memory sum(addend.size());
  ASSERT_TRUE(codec.decode_add(coding, type, got.view(), count, addend.data(), sum.data()));
  ASSERT_EQ(sum, added_to(type, carried, values, kept, addend));
}

template <typename Check>
void for_each_case(Check check) {
  for (const DataType type : kSparseTypes) {
    for (const DataType carried : kSparseTypes) {
      for (const uint64_t count : {1U, 7U, 24U, 25U, 300U, 4097U, 70'001U}) {
        SCOPED_TRACE(std::string(name_of(type)) + " as " + std::string(name_of(carried)) + " x " +
                     std::to_string(count));
        if (count > 5000 && (type != kF32 || carried != kF32)) continue;  // as slow as it is plain
        check(type, carried, count);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Sparse, ThresholdSaysWhatItsDefinitionSays) {
  for_each_case([](DataType type, DataType carried, uint64_t count) {
    const Memory values = sparse_values(type, count, count + 1);
    for (const double threshold : {0.0, 1e-20, 0.1, 0.24, 1.0, 1e30}) {
      SCOPED_TRACE(threshold);
      expect_said(codec(kThreshold), {.parameter = threshold, .carried = carried}, type, values,
                  kept_from(type, values, threshold));
    }
  });
}

TEST_P(Sparse, NonzeroSaysWhatItsDefinitionSays) {
  for_each_case([](DataType type, DataType carried, uint64_t count) {
    Memory values = sparse_values(type, count, count + 2);
    for (const int every : {1, 2, 10, 200}) {
      for (uint64_t i = 0; i < count; i++) {
        if (i % every != 0) put_bits(type, &values[i * size_of(type)], 0);
      }
      SCOPED_TRACE(every);
      expect_said(codec(kNonzero), {.carried = carried}, type, values, kept_nonzero(type, values));
    }
  });
}

// T is a float64, and few of those are float32.
TEST_P(Sparse, KeepsFromTheThresholdOnToTheBit) {
  for (const double threshold : {0.001, 0.1, 0.5, 1.0 / 3, 1e-45, 1e-310, 7e-46, 3.5e38}) {
    for (const DataType type : kSparseTypes) {
      const Memory nearest = rounded(type, {static_cast<long double>(threshold)});
      const uint64_t bits = get_bits(type, nearest.data());
      Memory values(5 * size_of(type));
      for (uint64_t i = 0; i < 5; i++) {
        put_bits(type, &values[i * size_of(type)], bits + i - std::min<uint64_t>(bits, 2));
      }
      SCOPED_TRACE(std::string(name_of(type)) + " from " + std::to_string(threshold));
      expect_said(codec(kThreshold), {.parameter = threshold, .carried = type}, type, values,
                  kept_from(type, values, threshold));
    }
  }
}

TEST_P(Sparse, LeavesLessThanTheThreshold) {
  for (const DataType type : kSparseTypes) {
    for (const double threshold : {1e-20, 0.1, 1.0}) {
      const Memory values = sparse_values(type, 50'000, 3);
      Memory left;
      encoded(codec(kThreshold), {.parameter = threshold, .carried = type}, type, values, &left);
      for (const long double rest : numbers_of(type, left)) {
        ASSERT_LT(std::fabs(rest), static_cast<long double>(threshold));
      }
    }
  }
}

// What is decoded and what is left are y, to the bit.
TEST_P(Sparse, LosesNoBit) {
  for (const DataType carried : kSparseTypes) {
    const Memory values = finite_values(kF32, 50'000, 4);
    Memory left;
    const Coding coding = {.parameter = 0.1, .carried = carried};
    const Message message = encoded(codec(kThreshold), coding, kF32, values, &left);
    Memory sum = decode(codec(kThreshold), coding, kF32, message, 50'000);
    const auto sent = numbers_of(kF32, sum);
    const auto rest = numbers_of(kF32, left);
    const auto before = numbers_of(kF32, values);
    for (size_t i = 0; i < sent.size(); i++) {
      if (!std::isfinite(sent[i])) continue;
      ASSERT_EQ(sent[i] + rest[i], before[i]) << i;
    }
  }
}

TEST_P(Sparse, NonzeroGivesBackWhatItTook) {
  for (const DataType type : kSparseTypes) {
    for (const int every : {1, 3, 30, 3000}) {
      Memory values = finite_values(type, 140'000, 5);
      for (uint64_t i = 0; i < 140'000; i++) {
        if (i % every != 0) put_bits(type, &values[i * size_of(type)], 0);
      }
      const Coding coding = {.carried = type};
      const Message message = encoded(codec(kNonzero), coding, type, values);
      ASSERT_EQ(decode(codec(kNonzero), coding, type, message, 140'000), values);
    }
  }
}

// At every number of values where another form becomes the shortest.
TEST_P(Sparse, TakesTheShortestForm) {
  for (const DataType carried : kSparseTypes) {
    const uint64_t size = size_of(carried);
    for (const uint64_t count : {1ULL, 8ULL, 9ULL, 31ULL, 32ULL, 33ULL, 40ULL, 65'535ULL, 65'536ULL,
                                 65'537ULL, 150'000ULL}) {
      uint8_t form = 3;
      std::vector<uint64_t> tried;
      for (uint64_t kept = 0; kept <= count; kept++) {
        const uint8_t now = lengths_of(count, kept, size).form();
        if (now == form) continue;
        form = now;
        if (kept > 0) tried.push_back(kept - 1);
        tried.push_back(kept);
      }
      tried.push_back(count);
      for (const uint64_t kept : tried) {
        Memory values(count * sizeof(float));
        for (uint64_t i = 0; i < kept; i++) {
          const uint64_t place = i * count / kept;
          put_bits(kF32, &values[place * sizeof(float)], rounded_bits(kF32, 2));
        }
        const Message message = encoded(codec(kNonzero), {.carried = carried}, kF32, values);
        const Lengths lengths = lengths_of(count, kept, size);
        ASSERT_EQ(message.bytes.size(), lengths.shortest()) << count << " " << kept;
        ASSERT_EQ(message.said.flags, lengths.form()) << count << " " << kept;
        ASSERT_EQ(message.said.kept, kept);
      }
    }
  }
}

TEST_P(Sparse, AddsInAnyOrder) {
  constexpr uint64_t kCount = 10'000;
  std::vector<Message> messages;
  std::vector<Coding> codings;
  for (int rank = 0; rank < 4; rank++) {  // a list, a bitmap, all, a list
    std::mt19937 random(static_cast<uint32_t>(rank));
    std::vector<long double> numbers(kCount);
    for (auto& number : numbers) number = static_cast<int>(random() % 2001) - 1000;
    const double threshold = std::vector<double>{990, 500, 0, 970}[static_cast<size_t>(rank)];
    codings.push_back({.parameter = threshold});
    messages.push_back(encoded(codec(kThreshold), codings.back(), kF32, rounded(kF32, numbers)));
  }
  std::vector<size_t> order = {0, 1, 2, 3};
  Memory wanted;
  do {
    Memory sum(kCount * sizeof(float));
    for (const size_t i : order) {
      ASSERT_TRUE(
          codec(kThreshold)
              .decode_add(codings[i], kF32, messages[i].view(), kCount, sum.data(), sum.data()));
    }
    if (wanted.empty()) wanted = sum;
    ASSERT_EQ(sum, wanted);
  } while (std::next_permutation(order.begin(), order.end()));
}

// What a list does not say is neither read nor written: all of its memory is out of reach here.
TEST_P(Sparse, AddsAListAtTheCostOfWhatItSays) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = 64 * page;
  const uint64_t count = size / sizeof(float);
  auto* memory = static_cast<std::byte*>(
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const uint64_t place = 40 * page / sizeof(float) + 7;
  Memory values(size);
  put_bits(kF32, &values[place * sizeof(float)], rounded_bits(kF32, 3));
  const Message message = encoded(codec(kNonzero), {}, kF32, values);
  ASSERT_EQ(message.said.flags, 0);
  ASSERT_EQ(mprotect(memory, size, PROT_NONE), 0);
  ASSERT_EQ(mprotect(memory + 40 * page, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_TRUE(codec(kNonzero).decode_add({}, kF32, message.view(), count, memory, memory));
  EXPECT_EQ(get_bits(kF32, memory + place * sizeof(float)), rounded_bits(kF32, 3));
  munmap(memory, size);
}

// A float64 becomes a value of 16 bits in one rounding: not to float32, and then to a tie.
TEST_P(Sparse, RoundsFloat64Once) {
  for (const DataType carried : {kFp16, DataType::kBfloat16}) {
    std::vector<long double> numbers;
    const int digits = carried == kFp16 ? 10 : 7;
    for (int k = 0; k < 64; k++) {
      const long double tie = 1 + (2 * k + 1) * std::ldexp(1.0L, -digits - 1);
      for (const long double beside : {-0x1p-40L, -0x1p-52L, 0.0L, 0x1p-52L, 0x1p-40L}) {
        for (const int exponent : {0, -14, -20, -24, -130, 15}) {
          numbers.push_back(std::ldexp(tie + beside, exponent));
          numbers.push_back(-numbers.back());
        }
      }
    }
    for (const long double large : {65519.999999999L, 65520.0L, 1e39L, 1e300L, 1e-300L, 1e-60L}) {
      numbers.insert(numbers.end(), {large, -large});
    }
    const Memory values = rounded(DataType::kFloat64, numbers);
    expect_said(codec(kThreshold), {.parameter = 0, .carried = carried}, DataType::kFloat64, values,
                Kept(numbers.size(), true));
  }
}

struct Hashed {
  CodecId codec;
  const char* hashes[std::size(kSparseTypes)];
};

// Messages are read by other builds and other machines, so their bytes never change.
TEST_P(Sparse, MakesTheBytesItAlwaysMade) {
  constexpr Hashed kHashed[] = {
      {kThreshold,
       {"ea7cc24e0cb0f4edd4dfb69be55073940aab0a394b7569b443e15d897d1d2bb8",
        "795e98c84130b4f7d186931c45cae38ad901d4b9b256f90b94aad575bd81d346",
        "fd2888c930369e7004f2e50c91c936d12e1ecfca463172e323a2e829408e5f66",
        "e809e7fca6307547234d815a3f3aab440a206e3418719b4affc31a9e5614f7f1"}},
      {kSign,
       {"be0604e950c2d7379aa0edcbe72108be51ce976c9ff1ddbcc26e35c9f7150be1",
        "b18cd895c241d112eff9d7f6bf0a711ba07093a3d7ba0a69bbb91aa1a44a5649",
        "3ee49af87182a0aa0a27a5c4b41adfdddae895934a47b760080e6c2b27579387",
        "fa145349fd46930102e94a258420b3bd28e86999a7c32173185f94460ece9931"}},
      {kTopk,
       {"014cffb34dac76dfe3c204a26604e19364a985765b76fa8f69d93e791a03f8c0",
        "04c973a25f22a1efbbd2b55bf6a2bc962c393a47c26d4c294c8ddb88f6f7b523",
        "2b619380d21517c4194b282e2b5865a0c343118e967cc0c9fbbf2c77c12fc9c3",
        "63bcf4db18f6965dec470117a313f06193632fc3316ed080f7bfdd13c200941a"}},
      {kRandk,
       {"903412e893a844432c3c43b5719cb7d66a674ca411c2e85c3702abb7f965fb16",
        "3b9fe3e548bcc568d85c055b06e77e95984e87e294ac4c9fa69dbcc851f60154",
        "bc31ad334695d7b1c65acfb89ce77bb2020b26742cac765f5edbfc88a89e0cc2",
        "a0a6461c719dfb09982b43173a6f3626b43dbff72a39777ff3a1c244ebc7de61"}},
      {kNonzero,
       {"f6a211a641e8b61d6e4a85d7dcb0eb63cdaa0032bdeb72b2b91479ca2f2e6398",
        "9ffc3330e9c32cfa2ddc17179e3ade0990519e558190ed695dbb18710a9e333a",
        "7eb3a6e2219d001695f155a39ba060494db7b4cf9fd9a1c712f253f8c52928b9",
        "6449ebb767c8ba4d44f08e17ca15717fbaf13adee2f593422ae32be9b1e4c698"}},
  };
  constexpr uint64_t kCount = 300'007;
  for (const auto& [id, hashes] : kHashed) {
    for (size_t t = 0; t < std::size(kSparseTypes); t++) {
      const DataType type = kSparseTypes[t];
      const bool carries_all = id == kThreshold || id == kTopk || id == kNonzero;
      const Memory values =
          carries_all ? sparse_values(type, kCount, 29) : finite_values(type, kCount, 29);
      std::vector<Memory> made;
      for (const double parameter : {0.25, 0.9}) {
        const Coding coding = {.parameter = parameter,
                               .carried = type,
                               .seed = 1ULL << 40 | 29,
                               .step = 1ULL << 33 | 5};
        Memory left;
        const Message message = encoded(codec(id), coding, type, values, &left);
        Memory sum = values;
        ASSERT_TRUE(
            codec(id).decode_add(coding, type, message.view(), kCount, sum.data(), sum.data()));
        made.insert(made.end(),
                    {message.bytes, left, decode(codec(id), coding, type, message, kCount), sum});
      }
      EXPECT_EQ(hash_of(made), hashes[t]) << codec(id).name << " " << name_of(type);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Sparse, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::sparse_test
