// Tells what a step of the reducer with one exact tensor takes more than an allreduce of the same
// elements. Both take turns in blocks of calls; a figure is the median of its blocks.
//
//   tools/netlab -H 1 -p 2 -- build/bench/bucket_cost [BYTES ...]
//
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "banyan/communicator.h"
#include "banyan/reducer.h"

namespace {

constexpr int kBlocks = 31;
constexpr int kCallsInBlock = 200;

using Microseconds = std::chrono::duration<double, std::micro>;

// Appends the time of a call, in microseconds.
template <typename Step>
banyan::Status time_block(const Step& step, std::vector<double>& times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int call = 0; call < kCallsInBlock; ++call) BANYAN_TRY(step());
  times.push_back(Microseconds(std::chrono::steady_clock::now() - begin).count() / kCallsInBlock);
  return {};
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

banyan::Status compare(banyan::Communicator& communicator, size_t count) {
  std::vector<float> values(count);
  std::vector<float> gradient(count);
  const std::array<banyan_tensor_t, 1> tensors{{{.size = sizeof(banyan_tensor_t),
                                                 .id = 0,
                                                 .name = nullptr,
                                                 .count = count,
                                                 .dimensions = 2,
                                                 .datatype = BANYAN_FLOAT32,
                                                 .compression = nullptr}}};
  banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
  config.op = BANYAN_SUM;
  config.bucket_bytes = count * sizeof(float);
  config.rules = "*=off";
  auto reducer = banyan::Reducer::create(communicator, tensors, &config);
  if (!reducer.ok()) return reducer.status();
  std::vector<double> plain;
  std::vector<double> bucket;
  for (int block = 0; block < kBlocks; ++block) {
    BANYAN_TRY(
        time_block([&] { return communicator.allreduce(values, banyan::ReduceOp::kSum); }, plain));
    const auto by_reducer = [&]() -> banyan::Status {
      BANYAN_TRY(reducer->ready(0, gradient.data()));
      return reducer->wait();
    };
    BANYAN_TRY(time_block(by_reducer, bucket));
  }
  if (communicator.rank() == 0)
    std::printf("%10zu %12.2f %12.2f %+12.2f\n", count * sizeof(float), median(plain),
                median(bucket), median(bucket) - median(plain));
  return {};
}

banyan::Status compare_all(const std::vector<size_t>& counts) {
  auto communicator = banyan::Communicator::from_environment();
  if (!communicator.ok()) return communicator.status();
  if (communicator->rank() == 0)
    std::printf("%10s %12s %12s %12s\n", "bytes", "allreduce us", "reducer us", "more us");
  for (const size_t count : counts) BANYAN_TRY(compare(*communicator, count));
  return communicator->finalize();
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): it may just end
  std::vector<size_t> counts;
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    counts.push_back(std::strtoull(argv[i], &end, 10) / sizeof(float));
    if (*end != '\0' || counts.back() == 0) {
      std::fprintf(stderr, "%s: bytes are a number of at least 4\n", argv[i]);
      return 2;
    }
  }
  if (counts.empty()) counts = {256, 1024, 16384, 65536, 262144, 524288};
  const banyan::Status status = compare_all(counts);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
