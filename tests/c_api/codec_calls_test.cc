// banyan_encode and its kin as a caller has them: arguments, structs, threads, float modes, and the
// bytes that messages have for ever. What messages hold is tests/compression/codec_message_test.cc.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "banyan/banyan.h"
#include "tests/c_api/c_api_fixture.h"
#include "tests/support/codec_names.h"
#include "tests/support/codec_values.h"
#include "tests/support/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace banyan::test::codec_calls_test {
namespace {

constexpr size_t kCount = 5000;
constexpr banyan_datatype_t kF32 = BANYAN_FLOAT32;

std::vector<float> gradients(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = -6;
    for (int term = 0; term < 12; term++) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    value = static_cast<float>(sum);
  }
  return values;
}

// The name outlives what is returned.
banyan_encode_t with(std::string_view codec, float* residual = nullptr) {
  banyan_encode_t how = BANYAN_ENCODE_INIT;
  how.codec = codec.data();
  how.seed = 29;
  how.step = 3;
  how.residual = residual;
  return how;
}

size_t bound_of(const char* codec, size_t count, banyan_datatype_t type) {
  size_t bytes = 0;
  EXPECT_EQ(banyan_encode_bound(codec, count, type, &bytes), BANYAN_SUCCESS)
      << banyan_last_error(nullptr);
  return bytes;
}

Memory sent(banyan_encode_t& how, const void* source, size_t count, banyan_datatype_t type = kF32) {
  Memory message(bound_of(how.codec, count, type));
  size_t bytes = message.size();
  EXPECT_EQ(banyan_encode(&how, source, count, type, message.data(), &bytes), BANYAN_SUCCESS)
      << banyan_last_error(nullptr);
  EXPECT_LE(bytes, message.size());
  message.resize(bytes);
  return message;
}

std::vector<float> received(const Memory& message, size_t count) {
  std::vector<float> values(count);
  EXPECT_EQ(banyan_decode(message.data(), message.size(), values.data(), count, kF32),
            BANYAN_SUCCESS)
      << banyan_last_error(nullptr);
  return values;
}

void refused(banyan_result_t got, const std::string& word, int line = __builtin_LINE()) {
  EXPECT_EQ(got, BANYAN_ERR_INVALID_ARGUMENT) << "line " << line;
  const std::string text = banyan_last_error(nullptr);
  EXPECT_NE(text.find(word), std::string::npos) << "line " << line << ": " << text;
}

class EveryCodecCall : public testing::TestWithParam<std::string_view> {
 protected:
  const std::vector<float> values_ = gradients(kCount, 1);
};

TEST_P(EveryCodecCall, SendsAndAdds) {
  banyan_encode_t how = with(GetParam());
  const Memory message = sent(how, values_.data(), kCount);
  EXPECT_EQ(how.size, sizeof how);
  EXPECT_EQ(how.nonfinite, 0U);
  EXPECT_GT(how.kept, 0U);
  EXPECT_LE(how.kept, kCount);
  const std::vector<float> once = received(message, kCount);
  EXPECT_NE(once, std::vector<float>(kCount));
  std::vector<float> sum = values_;
  ASSERT_EQ(banyan_decode_add(message.data(), message.size(), sum.data(), kCount, kF32),
            BANYAN_SUCCESS);
  for (size_t i = 0; i < kCount; i++) ASSERT_EQ(sum[i], values_[i] + once[i]) << i;
}

TEST_P(EveryCodecCall, TakesNothingOfNothing) {
  for (const banyan_datatype_t type : {kF32, BANYAN_FLOAT16, BANYAN_BFLOAT16}) {
    float residual = 3;
    banyan_encode_t how = with(GetParam(), &residual);
    const Memory message = sent(how, nullptr, 0, type);
    EXPECT_EQ(message.size(), 64U);
    EXPECT_EQ(how.kept, 0U);
    EXPECT_EQ(how.nonfinite, 0U);
    EXPECT_EQ(residual, 3);
    EXPECT_EQ(banyan_decode(message.data(), message.size(), nullptr, 0, type), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_decode_add(message.data(), message.size(), nullptr, 0, type), BANYAN_SUCCESS);
  }
}

TEST_P(EveryCodecCall, SaysWhatAMessageTakes) {
  std::vector<float> residual(kCount, 0.5F);
  banyan_encode_t how = with(GetParam());
  const Memory whole = sent(how, values_.data(), kCount);
  how = with(GetParam(), residual.data());
  how.kept = how.nonfinite = 77;
  Memory message(whole.size(), std::byte{0xa5});
  for (const size_t room : {size_t{0}, size_t{63}, size_t{64}}) {
    size_t bytes = room;
    refused(banyan_encode(&how, values_.data(), kCount, kF32, message.data(), &bytes),
            "bytes is " + std::to_string(room));
    EXPECT_GT(bytes, room);
    EXPECT_EQ(message, Memory(whole.size(), std::byte{0xa5}));
    EXPECT_EQ(residual, std::vector<float>(kCount, 0.5F));
    EXPECT_EQ(how.kept, 77U);
    EXPECT_EQ(how.nonfinite, 77U);
  }
  how.residual = nullptr;
  size_t bytes = whole.size() - 1;
  refused(banyan_encode(&how, values_.data(), kCount, kF32, message.data(), &bytes), "takes");
  ASSERT_EQ(bytes, whole.size());
  ASSERT_EQ(banyan_encode(&how, values_.data(), kCount, kF32, message.data(), &bytes),
            BANYAN_SUCCESS);
  EXPECT_EQ(message, whole);
}

#if defined(__x86_64__)
TEST_P(EveryCodecCall, GivesTheSameBitsInAnyFloatMode) {
  constexpr unsigned kOther = 0x8040 | 0x6000;  // flushes subnormals, rounds towards zero
  std::vector<float> values = values_;
  for (size_t i = 0; i < kCount; i += 3) values[i] *= 0x1p-130F;
  std::vector<float> residuals[2], got[2];
  Memory messages[2];
  for (int turn = 0; turn < 2; turn++) {
    residuals[turn].assign(kCount, 0x1p-140F);
    const unsigned before = _mm_getcsr();
    if (turn == 1) _mm_setcsr(before | kOther);
    banyan_encode_t how = with(GetParam(), residuals[turn].data());
    messages[turn] = sent(how, values.data(), kCount);
    got[turn] = received(messages[turn], kCount);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & kOther, turn == 1 ? kOther : before & kOther) << "the mode is another one";
  }
  EXPECT_EQ(messages[0], messages[1]);
  const auto bytes_of = [](const auto& floats) {
    return std::string_view(reinterpret_cast<const char*>(floats.data()), kCount * sizeof(float));
  };
  EXPECT_EQ(bytes_of(residuals[0]), bytes_of(residuals[1]));
  EXPECT_EQ(bytes_of(got[0]), bytes_of(got[1]));
}
#endif

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodecCall, testing::ValuesIn(codec_names()),
                         [](const auto& name) { return as_identifier(name.param); });

// Messages are kept and read by other versions and other machines, so their bytes never change.
TEST(CodecCalls, MakeTheMessagesTheyAlwaysMade) {
  constexpr const char* kHashes[] = {
      "d0dcc205244de5a43024c5c67b65e8e1039dd0cf2a91e0e43e8e62f91cefdb73",
      "be2058e6bacef86911ccb7f5b380fed2fdeaf485ab5e335d6f8c1100ab3ac036",
      "e180119a88ab6732393399ddcf7f0b8a505e7fdfbf2ad9ec9ee485f4aa731c3c",
      "e8649809491ee432512bb6a159d1f4946fb2c0e2e39a6c255472e96c21efd09c",
      "2c480c828d146ec43ae5e7f94f8a58ec088050fe1bc33b577ec8677e5fb51fa8",
      "381a058aa22cdcb4c4f09511d4ff9f31c6e79d449b16585d68930cc243db632b",
      "7f3a05e4eaa0dbf48defb34beac2f0368135bc440d0d3b9757d5d01815ded06f",
      "61ed84f223bcc4a41b7f5ffadd44b18691479647613128553e9a5bb263578b15",
      "0017acf3e1167da0ba4d0e00c912ee5c3815e4325062a38592f2921950fd6309",
      "13d4c05c3101ddc9af75d8d5a7ab910622d87706ddfdf0e7b84dc4df238087df",
      "eee7943471460f0d4cd486efa2d8679e21433c94978ff8f4d42adc631db9dcf9",
      "53e3b9c61a8d739ca8afcf74af9ddfc6b884e17b0b6db8dcbb6dbac98603d52f",
      "3d79aa236a36ff9a1706436f8c6b9107e4db6b3b8a4896d7523d843036b650c7",
      "c8735350726ba13caea3b36b36a3644263168b6d74032d69b61f484e6cb3177f",
      "b74ebad9a190d8649432839da5810ddd831af84e27c9ca84902275a45e088503",
      "41b8138ba2411a1d29598659044fc5d0f8c594a2e0f57aea84f93b6e4ffe51b5",
      "e38639aaeaeed90a02fdc22ca68277920654a8d8d2755f63f4d7fc33f6637b84",
      "27c75acb8883e03fdc2c9e07f22fafdc39544174142316ed4d0b747acebcdef3",
      "14f4719d357153c88e79f0a08f6147216ce361887567287b9ca3c1453e9507c8",
      "446c82db02e2285b4285d51516913e43665f45018e6118db3467645db62db734"};
  const std::vector<std::string_view> names = codec_names();
  ASSERT_EQ(names.size(), std::size(kHashes));
  for (size_t i = 0; i < names.size(); i++) {
    Hash hash;
    for (const DataType type : kCodedTypes) {
      constexpr size_t kMany = 70'003;
      const auto c_type = static_cast<banyan_datatype_t>(type);
      const Memory any = mixed_values(type, kMany, 31);
      banyan_encode_t how = with(names[i]);
      hash.add(sent(how, any.data(), kMany, c_type));
      // Those with a residual are finite.
      std::vector<float> residual = gradients(kMany, 32);
      Memory values(kMany * size_of(type));
      for (size_t at = 0; at < kMany; at++) {
        put_bits(type, &values[at * size_of(type)], rounded_bits(type, residual[kMany - 1 - at]));
      }
      how = with(names[i], residual.data());
      hash.add(sent(how, values.data(), kMany, c_type));
      Memory left(kMany * sizeof(float));
      std::memcpy(left.data(), residual.data(), left.size());
      hash.add(left);
    }
    EXPECT_EQ(hash.text(), kHashes[i]) << names[i];
  }
}

TEST(CodecCalls, WorkInThreadsAtOnce) {
  const auto all_of = [](uint64_t seed) {
    std::vector<Memory> messages;
    for (const std::string_view name : codec_names()) {
      const std::vector<float> values = gradients(kCount + seed, seed);
      std::vector<float> residual(values.size(), 0.25F);
      banyan_encode_t how = with(name, residual.data());
      messages.push_back(sent(how, values.data(), values.size()));
      received(messages.back(), values.size());
      // An error is its thread's.
      const std::string wrong = "int" + std::to_string(seed + 100);
      size_t bytes = 0;
      refused(banyan_encode_bound(wrong.c_str(), 1, kF32, &bytes), "'" + wrong + "'");
    }
    return messages;
  };
  std::vector<std::vector<Memory>> wanted, got(4);
  for (uint64_t seed = 0; seed < 4; seed++) wanted.push_back(all_of(seed));
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; seed++)
    threads.emplace_back([&, seed] {
      for (int round = 0; round < 5; round++) got[seed] = all_of(seed);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, wanted);
}

TEST(CodecCalls, RefuseWrongArguments) {
  const std::vector<float> x(300, 1);
  std::vector<float> y(300, 5);
  Memory message(8192);
  size_t bytes = message.size();
  banyan_encode_t how = with("int8"), empty = how;
  empty.size = 0;
  const auto encode = [](banyan_encode_t* given, const void* source, int type, size_t count,
                         void* into, size_t* room) {
    return banyan_encode(given, source, count, type_of(type), into, room);
  };
  refused(encode(nullptr, x.data(), kF32, 300, message.data(), &bytes), "how is NULL");
  refused(encode(&empty, x.data(), kF32, 300, message.data(), &bytes), "how.size is 0");
  refused(encode(&how, nullptr, kF32, 300, message.data(), &bytes), "source is NULL");
  refused(encode(&how, x.data(), kF32, 300, nullptr, &bytes), "message is NULL");
  refused(encode(&how, x.data(), kF32, 300, message.data(), nullptr), "bytes is NULL");
  refused(encode(&how, x.data(), BANYAN_INT32, 300, message.data(), &bytes), "int32");
  refused(encode(&how, x.data(), BANYAN_FLOAT64, 300, message.data(), &bytes), "float64");
  refused(encode(&how, x.data(), BANYAN_FLOAT8_E4M3, 300, message.data(), &bytes), "float8_e4m3");
  refused(encode(&how, x.data(), 77, 300, message.data(), &bytes), "77");
  refused(encode(&how, x.data(), kF32, SIZE_MAX, message.data(), &bytes), "count");
  refused(encode(&how, x.data(), BANYAN_FLOAT16, SIZE_MAX / 4, message.data(), &bytes), "count");
  how.codec = nullptr;
  refused(encode(&how, x.data(), kF32, 300, message.data(), &bytes), "codec is NULL");
  for (const char* word : {"", "off", "exact", "auto", "int9", "inter=int8", "int8,int8"}) {
    how.codec = word;
    refused(encode(&how, x.data(), kF32, 300, message.data(), &bytes),
            "'" + std::string(word) + "'");
    refused(banyan_encode_bound(word, 300, kF32, &bytes), "'" + std::string(word) + "'");
  }
  EXPECT_EQ(bytes, message.size());
  EXPECT_EQ(message, Memory(8192));
  refused(banyan_encode_bound(nullptr, 300, kF32, &bytes), "codec is NULL");
  refused(banyan_encode_bound("int8", 300, kF32, nullptr), "bytes is NULL");
  refused(banyan_encode_bound("int8", 300, BANYAN_INT8, &bytes), "int8");
  refused(banyan_encode_bound("sign:1", 300, BANYAN_FLOAT64, &bytes), "float64");
  refused(banyan_encode_bound("int8", SIZE_MAX, kF32, &bytes), "count");

  how.codec = "int8";
  const Memory good = sent(how, x.data(), 300);
  refused(banyan_decode(nullptr, good.size(), y.data(), 300, kF32), "message is NULL");
  refused(banyan_decode(good.data(), good.size(), nullptr, 300, kF32), "target is NULL");
  refused(banyan_decode(good.data(), good.size(), y.data(), 300, BANYAN_INT32), "int32");
  refused(banyan_decode(good.data(), good.size(), y.data(), 300, BANYAN_FLOAT8_E5M2), "e5m2");
  refused(banyan_decode_add(good.data(), good.size(), y.data(), 300, type_of(77)), "77");
  refused(banyan_decode_add(good.data(), good.size(), y.data(), SIZE_MAX, kF32), "count");
  EXPECT_EQ(banyan_decode(good.data(), good.size(), y.data(), 299, kF32), BANYAN_ERR_CORRUPT);
  EXPECT_STRNE(banyan_last_error(nullptr), "");
  EXPECT_EQ(y, std::vector<float>(300, 5));
}

// A caller built with an older header has a shorter struct, whose end is somebody else's memory.
TEST(CodecCalls, TakeAShorterStruct) {
  const std::vector<float> x(300, 1);
  std::vector<float> residual(300, 9);
  banyan_encode_t how = with("int8", residual.data());
  how.size = offsetof(banyan_encode_t, residual);
  how.kept = how.nonfinite = 77;
  sent(how, x.data(), 300);
  EXPECT_EQ(how.size, offsetof(banyan_encode_t, residual));
  EXPECT_EQ(how.kept, 77U);
  EXPECT_EQ(how.nonfinite, 77U);
  EXPECT_EQ(residual, std::vector<float>(300, 9));
}

}  // namespace
}  // namespace banyan::test::codec_calls_test
