// What calls by codecs took: in a tuning file, and as ranks tell it each other.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "src/tuning/shared_tuning.h"
#include "src/tuning/tuning_file.h"

namespace banyan::codec_times_test {
namespace {

using ::testing::HasSubstr;

TuningFile example() {
  TuningFile file;
  file.version = "0.1.0";
  file.tuned_on = {.cpu = "x", .cores = 2, .ranks = 4, .hosts = 1, .transports = "shm"};
  file.codec_times = {
      {{}, 4096, 12.5}, {{.codec = kInt8}, 4096, 9.25}, {{.codec = kInt8}, 1U << 20, 1000}};
  return file;
}

std::string error_with(std::string_view what, const std::string& by) {
  std::string json = to_json(example());
  const size_t at = json.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return std::string(parse_tuning(json.replace(at, what.size(), by)).status().message());
}

TEST(CodecTimes, AreKeptInAFile) {
  const Result<TuningFile> back = parse_tuning(to_json(example()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, example());
}

TEST(CodecTimes, SayWhatIsWrong) {
  EXPECT_THAT(error_with("\"int8\"", "\"int9\""), HasSubstr("line 7: 'int9' at character 1"));
  EXPECT_THAT(error_with("int8", "topk:0.0123456789"), HasSubstr("right is at most 16 bytes"));
  EXPECT_EQ(error_with("\"int8\"", "\"off\""), "line 7: a second time of 'off' for 4096 bytes");
  EXPECT_EQ(error_with("9.25", "0"),
            "line 7: 'us' is 0; right is a number from 1e-06 to 1000000000");
  EXPECT_EQ(error_with("\"bytes\": 4096", "\"bytes\": 0"),
            "line 6: 'bytes' is 0; right is a whole number from 1");
  EXPECT_EQ(error_with(", \"us\": 9.25", ""), "line 7: a time of a codec without the member 'us'");
  EXPECT_EQ(error_with("\"codec_times\": [", "\"codec_times\": 1, \"ring\": ["),
            "line 5: 'codec_times' is a number; right is an array");
  std::string many;
  for (int i = 1; i <= 126; ++i)
    many += fmt::format("{{\"codec\": \"bf16\", \"bytes\": {}, \"us\": 1}}, ", i);
  EXPECT_EQ(error_with("{\"codec\": \"off\"", many + "{\"codec\": \"off\""),
            "line 8: more times of codecs than 128; valid: at most 128");
}

TEST(CodecTimes, AreSharedAsTheyAre) {
  std::vector<CodecTime> times = shared(example()).codec_times;
  EXPECT_EQ(times, example().codec_times);
  times.push_back({{.codec = kInt4, .stochastic = true}, 3, 1.0 / 3});
  const Bytes whole = pack_codec_times(times);
  EXPECT_EQ(*unpack_codec_times(whole), times);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(unpack_codec_times(std::span(whole).first(bytes)).status().code(), Code::kCorrupt);
  const auto refused = [](const CodecTime& time) {
    return unpack_codec_times(pack_codec_times({time})).status().code() == Code::kCorrupt;
  };
  using Limits = std::numeric_limits<double>;
  EXPECT_TRUE(refused({{}, 0, 1}));
  EXPECT_TRUE(refused({{}, 1, 0}));
  EXPECT_TRUE(refused({{}, 1, -1}));
  EXPECT_TRUE(refused({{}, 1, Limits::infinity()}));
  EXPECT_TRUE(refused({{}, 1, Limits::quiet_NaN()}));
  EXPECT_FALSE(refused({{}, 1, 1}));
}

TEST(CodecTimes, AreNoMoreThanThereIsRoomFor) {
  std::vector<CodecTime> most;
  for (size_t i = 0; i < kMostCodecTimes; ++i)
    most.push_back({{.codec = kThreshold, .parameter = 1.1875}, i + 1, 1});
  EXPECT_LE(pack_codec_times(most).size(), kMostCodecTimesPacked);
  EXPECT_EQ(*unpack_codec_times(pack_codec_times(most)), most);
  most.push_back(most.front());
  EXPECT_EQ(unpack_codec_times(pack_codec_times(most)).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace banyan::codec_times_test
