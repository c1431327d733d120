// What everything rests on: text to values, the environment, the byte reader.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/environment.h"
#include "src/base/parse.h"
#include "src/base/signature.h"
#include "tests/support/variable.h"

namespace banyan::base_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Parse, Sizes) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("4096"), 4096U);
  EXPECT_EQ(*parse_size("64K"), 65536U);
  EXPECT_EQ(*parse_size("64k"), 65536U);
  EXPECT_EQ(*parse_size("1M"), uint64_t{1} << 20);
  EXPECT_EQ(*parse_size("2G"), uint64_t{1} << 31);
  EXPECT_EQ(*parse_size("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*parse_size("17179869183G"), uint64_t{17179869183} << 30);
}

TEST(Parse, SizesThatAreNone) {
  for (const char* text :
       {"", "K", "-4", "+4", "1.5K", "4X", "4KB", " 4", "4 ", "0x10", "4K4", "banana",
        "18446744073709551616", "17179869184G", "99999999999999999999G"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(size.status().message()), AllOf(HasSubstr(text), HasSubstr("K")));
  }
}

TEST(Parse, SizesComeBack) {
  for (const uint64_t size : {0ULL, 1ULL, 1000ULL, 1024ULL, 1025ULL, 65536ULL, 3ULL << 20,
                              (1ULL << 30) + 1024, 1ULL << 40, ~0ULL})
    EXPECT_EQ(*parse_size(format_size(size)), size);
  EXPECT_EQ(format_size(65536), "64K");
  EXPECT_EQ(format_size(100), "100");
}

TEST(Parse, Durations) {
  EXPECT_DOUBLE_EQ(*parse_duration("5s"), 5);
  EXPECT_DOUBLE_EQ(*parse_duration("200ms"), 0.2);
  EXPECT_DOUBLE_EQ(*parse_duration("50us"), 50e-6);
  EXPECT_DOUBLE_EQ(*parse_duration("30"), 30);
  EXPECT_DOUBLE_EQ(*parse_duration("1.5s"), 1.5);
  EXPECT_EQ(*parse_duration("inf"), std::numeric_limits<double>::infinity());
  for (const char* text : {"", "s", "ms", "soon", "5 parsecs", "-5s", "+5s", "nan", "infs", "1e3s",
                           "1.2.3s", "5m", ".", "0x5s", "5s "}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(std::string(duration.status().message()), AllOf(HasSubstr(text), HasSubstr("5s")));
  }
}

TEST(Parse, IntegersWithinBounds) {
  EXPECT_EQ(*parse_integer("-3", -3, 7), -3);
  EXPECT_EQ(*parse_integer("7", -3, 7), 7);
  for (const char* text : {"8", "-4", "", "two", "7.0", "7 ", "99999999999999999999"}) {
    const auto value = parse_integer(text, -3, 7);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("from -3 to 7"));
  }
}

TEST(Parse, Switches) {
  for (const char* text : {"on", "1", "true", "yes"}) EXPECT_TRUE(*parse_switch(text));
  for (const char* text : {"off", "0", "false", "no"}) EXPECT_FALSE(*parse_switch(text));
  EXPECT_THAT(std::string(parse_switch("perhaps").status().message()),
              AllOf(HasSubstr("perhaps"), HasSubstr("off")));
}

TEST(Parse, EveryNameComesBack) {
  for (int i = 0; i < kDataTypeCount; ++i)
    EXPECT_EQ(static_cast<int>(*parse_data_type(name_of(static_cast<DataType>(i)))), i);
  for (int i = 0; i < kReduceOpCount - 1; ++i)
    EXPECT_EQ(static_cast<int>(*parse_reduce_op(name_of(static_cast<ReduceOp>(i)))), i);
  for (int i = 0; i < static_cast<int>(Collective::kFinalize); ++i)
    EXPECT_EQ(static_cast<int>(*parse_collective(name_of(static_cast<Collective>(i)))), i);
  EXPECT_EQ(*parse_data_type("bf16"), DataType::kBfloat16);
  EXPECT_EQ(*parse_data_type("fp64"), DataType::kFloat64);
}

TEST(Parse, UnknownNamesAreAnsweredWithTheValidOnes) {
  EXPECT_THAT(std::string(parse_data_type("float31").status().message()),
              AllOf(HasSubstr("'float31'"), HasSubstr("float32"), HasSubstr("bfloat16")));
  EXPECT_THAT(std::string(parse_reduce_op("premulsum").status().message()),
              AllOf(HasSubstr("valid: sum, prod, max, min, avg")));
  EXPECT_FALSE(parse_collective("finalize").ok());
  EXPECT_FALSE(parse_collective("").ok());
}

TEST(Parse, SplittingAndTrimming) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(trim(" \ta b\n"), "a b");
  EXPECT_EQ(trim("  "), "");
}

TEST(Parse, PrintableTextsAreUtf8WithoutControls) {
  EXPECT_EQ(printable("a\n\x1b[1m\x7f|\xc3\xa9|\xc2\x9b|\xf0\x9f\x8c\xb3"),
            "a  [1m |\xc3\xa9| |\xf0\x9f\x8c\xb3");
  EXPECT_EQ(printable("caf\xe9|\xc0\x80|\xed\xa0\x80|\xf5\x80\x80\x80|\xe2\x82"),
            "caf?|??|???|????|??");
}

TEST(Parse, NearestWord) {
  const std::vector<std::string_view> words = {"ring", "bruck", "pairwise"};
  EXPECT_EQ(nearest("rign", words), "ring");
  EXPECT_EQ(nearest("pairwize", words), "pairwise");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(Parse, LongRubbishMakesAShortError) {
  EXPECT_LT(parse_size(std::string(100000, 'x')).status().message().size(), 250U);
}

Status error_of(std::string name, std::string value) {
  return parse_environment(RawEnvironment({{std::move(name), std::move(value)}})).status();
}

TEST(Environment, Defaults) {
  const auto values = parse_environment(RawEnvironment({}));
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(values->timeout_s, 30);
  EXPECT_EQ(values->init_timeout_s, 60);
  EXPECT_TRUE(values->check);
  EXPECT_EQ(values->compress, "off");
  EXPECT_EQ(values->port_range.first, 0);
}

// What the table says is what an empty environment gives.
TEST(Environment, TheTableTellsTheTrueDefaults) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Variable& variable : variables()) {
    if (!variable.default_value.empty())
      entries.emplace_back(variable.name, variable.default_value);
  }
  const auto none = parse_environment(RawEnvironment({}));
  const auto all = parse_environment(RawEnvironment(entries));
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->timeout_s, none->timeout_s);
  EXPECT_EQ(all->init_timeout_s, none->init_timeout_s);
  EXPECT_EQ(all->check, none->check);
  EXPECT_EQ(all->compress, none->compress);
  EXPECT_EQ(all->debug.of, none->debug.of);
  EXPECT_EQ(all->debug.of, LogLevels().of);
}

TEST(Environment, TableIsCompleteAndDocumented) {
  std::set<std::string_view> names;
  for (const Variable& variable : variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_TRUE(variable.name.starts_with("BANYAN_"));
    EXPECT_GT(variable.text.size(), 12U);
    EXPECT_EQ(variable.secret, variable.name == "BANYAN_SECRET");
  }
  EXPECT_EQ(names.size(), 23U);
}

TEST(Environment, Values) {
  const auto values = parse_environment(RawEnvironment({{"BANYAN_TIMEOUT", "200ms"},
                                                        {"BANYAN_INIT_TIMEOUT", "inf"},
                                                        {"BANYAN_PORT_RANGE", "20000-20100"},
                                                        {"BANYAN_CHECK", "off"},
                                                        {"BANYAN_DEBUG", "net=trace,init=off"},
                                                        {"BANYAN_SOCKET_IFNAME", "lo"},
                                                        {"BANYAN_ALGO", "ring"},
                                                        {"BANYAN_COMPRESS", ""},
                                                        {"BANYAN_TRANSPORTS", "shm"}}));
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_DOUBLE_EQ(values->timeout_s, 0.2);
  EXPECT_EQ(values->init_timeout_s, std::numeric_limits<double>::infinity());
  EXPECT_EQ(values->port_range.first, 20000);
  EXPECT_EQ(values->port_range.last, 20100);
  EXPECT_FALSE(values->check);
  EXPECT_EQ(values->debug.of[static_cast<size_t>(Subsystem::kNet)], LogLevel::kTrace);
  EXPECT_EQ(values->debug.of[static_cast<size_t>(Subsystem::kInit)], LogLevel::kOff);
  EXPECT_EQ(values->debug.of[static_cast<size_t>(Subsystem::kPlan)], LogLevel::kWarn);
  EXPECT_EQ(values->socket_interface, "lo");
  EXPECT_EQ(values->algorithm, "ring");
  EXPECT_EQ(values->transports, "shm");
}

TEST(Environment, BadValuesNameVariableValueAndWhatIsRight) {
  struct Case {
    const char *name, *value, *right;
  };
  for (const Case& bad :
       std::initializer_list<Case>{{"BANYAN_TIMEOUT", "soon", "200ms"},
                                   {"BANYAN_TIMEOUT", "0s", "more than 0"},
                                   {"BANYAN_INIT_TIMEOUT", "5 parsecs", "200ms"},
                                   {"BANYAN_DEBUG", "loud", "trace"},
                                   {"BANYAN_DEBUG", "nett=info", "net"},
                                   {"BANYAN_DEBUG", "net=loud", "trace"},
                                   {"BANYAN_DEBUG", "net=info,", "subsystem"},
                                   {"BANYAN_PORT_RANGE", "9-1", "A-B"},
                                   {"BANYAN_PORT_RANGE", "0-5", "A-B"},
                                   {"BANYAN_PORT_RANGE", "5-65536", "A-B"},
                                   {"BANYAN_PORT_RANGE", "80", "A-B"},
                                   {"BANYAN_CHECK", "perhaps", "off"},
                                   {"BANYAN_SOCKET_IFNAME", "nosuch0", "lo"},
                                   {"BANYAN_SINGLE_COPY", "0", "at least 1"},
                                   {"BANYAN_SINGLE_COPY", "always", "auto, never"},
                                   {"BANYAN_GPU_DIRECT", "maybe", "on, off, 1, 0"},
                                   {"BANYAN_GPU_DIRECT", "AUTO", "or auto"}}) {
    const Status status = error_of(bad.name, bad.value);
    ASSERT_FALSE(status.ok()) << bad.name << "=" << bad.value;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(bad.name), HasSubstr(bad.value), HasSubstr(bad.right)));
  }
  EXPECT_EQ(error_of("BANYAN_TIMEOUT", "soon").code(), Code::kInvalidArgument);
}

TEST(Environment, SingleCopiesAreMeasuredOrSaid) {
  const auto least = [](const char* value) {
    const std::pair<std::string, std::string> entry("BANYAN_SINGLE_COPY", value);
    return parse_environment(RawEnvironment({entry}))->single_copy_least;
  };
  EXPECT_EQ(least("auto"), std::nullopt);
  EXPECT_EQ(least(""), std::nullopt);
  EXPECT_EQ(least("never"), 0U);
  EXPECT_EQ(least("64K"), 65536U);
}

TEST(Environment, EmptyValuesOfOursAreUnset) {
  const RawEnvironment raw({{"BANYAN_TIMEOUT", ""}, {"RANK", ""}, {"BANYAN_TOPO_FILE", ""}});
  EXPECT_EQ(raw.find("BANYAN_TIMEOUT"), nullptr);
  EXPECT_NE(raw.find("RANK"), nullptr);
  EXPECT_TRUE(parse_environment(raw).ok());
}

TEST(Environment, UnknownNamesGetTheNearestKnownOne) {
  const auto found = unknown_variables(
      RawEnvironment({{"BANYAN_TIMEOUTS", ""}, {"BANYAN_TIMEOUT", ""}, {"BANYAN_TEST_X", ""}}));
  EXPECT_THAT(found, ElementsAre("BANYAN_TIMEOUTS is unknown; did you mean BANYAN_TIMEOUT?"));
}

TEST(Environment, OfThisProcess) {
  std::optional<test::Variable> timeout(std::in_place, "BANYAN_TIMEOUT", "7s");
  const RawEnvironment raw = RawEnvironment::of_process();
  timeout.reset();
  ASSERT_NE(raw.find("BANYAN_TIMEOUT"), nullptr);
  EXPECT_EQ(*raw.find("BANYAN_TIMEOUT"), "7s");
  EXPECT_EQ(raw.find("BANYAN_SURELY_NOT_SET"), nullptr);
}

TEST(BytesReader, ReadsWhatWasWritten) {
  Writer writer;
  writer.put(uint32_t{7});
  writer.put(DataType::kBfloat16);
  writer.put(int64_t{-1});
  writer.put_text("four ranks");
  Reader reader(writer.bytes());
  EXPECT_EQ(reader.get<uint32_t>(), 7U);
  EXPECT_EQ(reader.get<DataType>(), DataType::kBfloat16);
  EXPECT_EQ(reader.get<int64_t>(), -1);
  EXPECT_EQ(reader.get_text(64), "four ranks");
  EXPECT_TRUE(reader.at_end());
}

TEST(BytesReader, EveryTruncationTurnsBadAndStaysBad) {
  Writer writer;
  writer.put(uint32_t{7});
  writer.put_text("four ranks");
  writer.put(uint64_t{9});
  const Bytes whole = writer.take();
  for (size_t size = 0; size < whole.size(); ++size) {
    Reader reader(std::span<const std::byte>(whole.data(), size));
    reader.get<uint32_t>();
    reader.get_text(64);
    EXPECT_EQ(reader.get<uint64_t>(), 0U) << size;
    EXPECT_TRUE(reader.bad()) << size;
    EXPECT_FALSE(reader.at_end());
    EXPECT_EQ(reader.get<uint8_t>(), 0U);
    EXPECT_TRUE(reader.get_raw(0).empty());
    EXPECT_TRUE(reader.bad());
  }
}

TEST(BytesReader, LengthsAreLimited) {
  Writer writer;
  writer.put(uint32_t{0xffffffff});
  writer.put(uint32_t{1});
  Reader huge(writer.bytes());
  EXPECT_EQ(huge.get_text(SIZE_MAX), "");
  EXPECT_TRUE(huge.bad());
  Writer text;
  text.put_text("12345");
  Reader narrow(text.bytes());
  EXPECT_EQ(narrow.get_text(4), "");
  EXPECT_TRUE(narrow.bad());
}

TEST(Signature, TheFirstDifferenceIsNamedWithBothRanks) {
  CallSignature mine{.count = 256,
                     .root = 0,
                     .collective = Collective::kAllreduce,
                     .type = DataType::kFloat32,
                     .op = ReduceOp::kSum,
                     .algorithm = 0};
  const auto differing = [&](auto change) {
    CallSignature theirs = mine;
    change(theirs);
    return describe_difference(mine, 0, theirs, 3, 7);
  };
  EXPECT_EQ(differing([](CallSignature& s) { s.count = 255; }),
            "count differs: rank 0 has 256, rank 3 has 255 (allreduce of float32, call 7)");
  EXPECT_THAT(differing([](CallSignature& s) { s.type = DataType::kInt8; }),
              AllOf(HasSubstr("datatype"), HasSubstr("float32"), HasSubstr("rank 3 has int8")));
  EXPECT_THAT(differing([](CallSignature& s) { s.op = ReduceOp::kMax; }),
              AllOf(HasSubstr("op differs"), HasSubstr("sum"), HasSubstr("max")));
  EXPECT_THAT(differing([](CallSignature& s) { s.root = 2; }), HasSubstr("root differs"));
  EXPECT_THAT(differing([](CallSignature& s) { s.algorithm = 2; }), HasSubstr("algorithm differs"));
  EXPECT_THAT(differing([](CallSignature& s) { s.codec = 2; }),
              HasSubstr("codec differs: rank 0 has none, rank 3 has number 2"));
  EXPECT_THAT(differing([](CallSignature& s) { s.memory = MemoryKind::kDevice; }),
              HasSubstr("memory differs: rank 0 has host, rank 3 has device"));
  EXPECT_THAT(differing([](CallSignature& s) {
                s.collective = Collective::kFinalize;
                s.count = 0;
              }),
              HasSubstr("collective differs: rank 0 has allreduce, rank 3 has finalize"));
}

TEST(Signature, BothRanksSayTheSame) {
  CallSignature a;
  CallSignature b;
  b.count = 5;
  EXPECT_EQ(describe_difference(a, 1, b, 4, 9), describe_difference(b, 4, a, 1, 9));
}

TEST(Signature, ValuesOfNoEnumAreNumbers) {
  CallSignature mine;
  CallSignature theirs;
  theirs.collective = static_cast<Collective>(200);
  EXPECT_THAT(describe_difference(mine, 0, theirs, 1, 0), HasSubstr("200"));
  theirs = mine;
  theirs.type = static_cast<DataType>(99);
  EXPECT_THAT(describe_difference(mine, 0, theirs, 1, 0), HasSubstr("99"));
}

TEST(Signature, AlgorithmsHaveTheNamesThatAreGiven) {
  const CallSignature mine{.algorithm = 2};
  const std::vector<std::string_view> names = {"tree", "ring"};
  const auto against = [&](uint8_t algorithm) {
    return describe_difference(mine, 0, CallSignature{.algorithm = algorithm}, 1, 0, names);
  };
  EXPECT_THAT(against(1), HasSubstr("rank 0 has ring, rank 1 has tree"));
  EXPECT_THAT(against(0), HasSubstr("rank 1 has the library's choice"));
  EXPECT_THAT(against(100), HasSubstr("rank 1 has number 100"));
  EXPECT_THAT(against(kWithParameters | 100), HasSubstr("rank 1 has number 100 with parameters"));
}

}  // namespace
}  // namespace banyan::base_test
