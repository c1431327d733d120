// Sums by every codec, over every transport: the bits that plain code makes of the ranks' values by
// the same codec, and the same on all ranks. Bounds are kept.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "compression/grammar.h"
#include "compression/kernels.h"
#include "src/c_api/inspect.h"
#include "tests/ranks/coded.h"
#include "tests/ranks/over_transports.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"

namespace banyan::test::every_codec_test {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

constexpr size_t kCount = 20'011;

float number(int rank, size_t i) {
  const auto x = static_cast<float>(i + 1) * static_cast<float>(rank + 1);
  return std::sin(x) * std::exp2(static_cast<float>(i % 9) - 6);
}

// As the elements of a rank are, exactly.
Floats numbers(int rank, size_t count, DataType type) {
  Floats made(count);
  for (size_t i = 0; i < count; ++i) made[i] = number(rank, i);
  if (type == DataType::kFloat32) return made;
  Bytes narrow(count * size_of(type));
  const auto t = static_cast<size_t>(type);
  best_kernels().encode[t](narrow.data(), made.data(), count, 1);
  best_kernels().decode[t](made.data(), narrow.data(), count, nullptr);
  return made;
}

Bytes elements(const Floats& values, DataType type) {
  Bytes made(values.size() * size_of(type));
  best_kernels().encode[static_cast<size_t>(type)](made.data(), values.data(), values.size(), 1);
  return made;
}

const Codec& codec_at(CodecId id) {
  return codecs()[id - size_t{1}];
}

std::byte* bytes_of(Floats& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// What a message of the values says of them.
Floats said_of(CodecId id, const Coding& coding, Floats values) {
  constexpr DataType kType = DataType::kFloat32;
  const Codec& codec = codec_at(id);
  Bytes message(codec.capacity(coding, kType, values.size()));
  const Encoded said =
      codec.encode(coding, kType, bytes_of(values), values.size(), message.data(), nullptr);
  EXPECT_TRUE(codec.decode(coding, kType, {message.data(), said.size, said.flags}, values.size(),
                           bytes_of(values)));
  return values;
}

// The sum before it is encoded once more.
Floats sum_of_said(const CodecChoice& choice, int ranks, size_t count, DataType type) {
  const Coding coding = coding_of(choice, type);
  Floats sum;
  for (int rank = 0; rank < ranks; ++rank) {
    const Floats said = said_of(choice.codec, coding, numbers(rank, count, type));
    if (rank == 0) sum = said;
    for (size_t i = 0; rank > 0 && i < count; ++i) sum[i] += said[i];
  }
  return sum;
}

Floats sum_by(const CodecChoice& choice, int ranks, size_t count, DataType type) {
  const CodecId of_sums = codec_at(choice.codec).of_sums;
  return said_of(of_sums == kNoCodec ? choice.codec : of_sums, coding_of(choice, type),
                 sum_of_said(choice, ranks, count, type));
}

uint64_t digest(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

class EveryCodecOver : public OverTransports {
 protected:
  // Ranks of a communicator whose ceiling that is; null: it has none.
  void run(int size, const banyan_compression_t* compression,
           const std::function<void(Rank&, banyan_comm_t)>& body) {
    const std::string transport(GetParam().transport);
    run_ranks(GetParam().kind, size, [&](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.transports = transport.c_str();
      config.timeout_s = 20 * time_factor();
      config.compression = compression;
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      body(self, comm);
      self.leave(comm);
    });
  }
};

banyan_result_t sum(banyan_comm_t comm, const banyan_compression_t& compression, const Bytes& send,
                    Bytes& recv, size_t count, DataType type, bool scatters = false) {
  banyan_call_t call = BANYAN_CALL_INIT;
  if (scatters) call.collective = BANYAN_REDUCE_SCATTER;
  call.send = send.data();
  call.recv = recv.data();
  call.count = count;
  call.datatype = static_cast<banyan_datatype_t>(type);
  call.compression = &compression;
  banyan_request_t request = nullptr;
  banyan_result_t result = banyan_request_create(comm, &call, &request);
  if (result != BANYAN_SUCCESS) return result;
  result = banyan_request_start(request);
  if (result == BANYAN_SUCCESS) result = banyan_request_wait(request);
  banyan_request_destroy(request);
  return result;
}

TEST_P(EveryCodecOver, SumsAsPlainCodeDoes) {
  constexpr const char* kNames[] = {"fp16",     "bf16",          "int8",
                                    "int4",     "dyn8",          "e4m3",
                                    "e5m2",     "threshold:0.3", "threshold:0.3:fp16",
                                    "sign:0.3", "topk:0.02",     "topk:0.02:fp16",
                                    "onebit"};
  for (const int size : {2, 3})
    run(size, nullptr, [&](Rank& self, banyan_comm_t comm) {
      for (const char* name : kNames)
        for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
          self.where(std::string(name) + " of " + std::string(name_of(type)));
          const CodecChoice choice = *parse_codec(name);
          const Bytes send = elements(numbers(self.rank(), kCount, type), type);
          Bytes recv(send.size());
          if (!self.expect_ok(sum(comm, codec_named(name), send, recv, kCount, type), "allreduce"))
            return;
          self.agree(digest(recv), name);
          self.expect(recv == elements(sum_by(choice, size, kCount, type), type),
                      "not what plain code makes of it");
        }
    });
}

// Blocks are shares of a vector, each encoded by itself, and their sums are not encoded.
TEST_P(EveryCodecOver, ScattersSumsAsPlainCodeDoes) {
  constexpr size_t kBlock = 8192;
  run(3, nullptr, [&](Rank& self, banyan_comm_t comm) {
    for (const char* name : {"int8", "int4", "threshold:0.3", "topk:0.02", "onebit"})
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
        self.where(std::string(name) + " of " + std::string(name_of(type)));
        const Bytes send = elements(numbers(self.rank(), 3 * kBlock, type), type);
        Bytes recv(kBlock * size_of(type));
        if (!self.expect_ok(sum(comm, codec_named(name), send, recv, kBlock, type, true),
                            "reduce_scatter"))
          return;
        const Bytes all = elements(sum_of_said(*parse_codec(name), 3, 3 * kBlock, type), type);
        const auto* mine = all.data() + recv.size() * static_cast<size_t>(self.rank());
        self.expect(std::equal(recv.begin(), recv.end(), mine), "not what plain code makes of it");
      }
  });
}

// By chance, or with a choice of each owner: the same on all ranks, and other bits with another
// seed.
TEST_P(EveryCodecOver, AgreesOnWhatGoesByChance) {
  run(3, nullptr, [&](Rank& self, banyan_comm_t comm) {
    for (const char* name : {"int8+sr", "int4+sr", "e4m3+sr", "randk:0.1", "topk:0.02:resel"}) {
      self.where(name);
      const DataType type = DataType::kFloat32;
      const Bytes send = elements(numbers(self.rank(), kCount, type), type);
      Bytes recv(send.size()), other(send.size());
      self.expect_ok(sum(comm, codec_named(name, 1), send, recv, kCount, type), "allreduce");
      self.expect_ok(sum(comm, codec_named(name, 2), send, other, kCount, type), "allreduce");
      self.agree(digest(recv), name);
      const bool chance = std::string_view(name).find("resel") == std::string_view::npos;
      self.expect((recv == other) != chance, "the seed");
    }
  });
}

TEST_P(EveryCodecOver, KeepsBounds) {
  run(3, nullptr, [&](Rank& self, banyan_comm_t comm) {
    for (const banyan_fidelity_t fidelity : {BANYAN_BOUND_ABSOLUTE, BANYAN_BOUND_RELATIVE})
      for (const double bound : {0.9, 0.1, 1e-3, 1e-30})
        for (const bool cancels : {false, true}) {
          self.where("bound " + std::to_string(bound));
          banyan_compression_t compression = codec_named("auto");
          compression.fidelity = fidelity;
          compression.bound = bound;
          const auto value = [&](int rank, size_t i) {
            const float common = 64 * number(9, i);
            const float much = rank == 0 ? common : rank == 1 ? -common : 0;
            return number(rank, i) + (cancels ? much : 0);
          };
          Floats mine(kCount);
          for (size_t i = 0; i < kCount; ++i) mine[i] = value(self.rank(), i);
          Bytes recv(kCount * sizeof(float));
          if (!self.expect_ok(sum(comm, compression, elements(mine, DataType::kFloat32), recv,
                                  kCount, DataType::kFloat32),
                              "allreduce"))
            return;
          self.agree(digest(recv), "the sums");
          double farthest = 0, largest = 0, rounded = 0;
          for (size_t i = 0; i < kCount; ++i) {
            float got = 0;
            std::memcpy(&got, &recv[i * sizeof got], sizeof got);
            double exact = 0, magnitudes = 0;
            for (int rank = 0; rank < 3; ++rank) {
              exact += static_cast<double>(value(rank, i));
              magnitudes += std::abs(static_cast<double>(value(rank, i)));
            }
            farthest = std::max(farthest, std::abs(static_cast<double>(got) - exact));
            largest = std::max(largest, std::abs(exact));
            rounded = std::max(rounded, 0x1p-23 * magnitudes);
          }
          const double most = fidelity == BANYAN_BOUND_RELATIVE ? bound * largest : bound;
          self.expect(farthest <= std::max(most, rounded), "off by " + std::to_string(farthest));
          if (bound == 0.9 && !cancels) self.expect(farthest > rounded, "nothing was compressed");
        }
  });
}

INSTANTIATE_TEST_SUITE_P(All, EveryCodecOver, everywhere(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::every_codec_test
