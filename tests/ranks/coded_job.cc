// One rank of a job whose sums go by a toy codec between the hosts, and by another one inside them:
// the launcher's variables say which. Rank 0 tells how it went.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <string_view>

#include "src/c_api/handles.h"
#include "tests/ranks/coded.h"
#include "tests/support/toy_codec.h"

namespace banyan::test {
namespace {

// What went wrong; empty: nothing.
std::string run(banyan_comm_t comm, int rank, int size) {
  std::vector<float> recv, again(1);
  for (const size_t count : {size_t{1}, size_t{5}, size_t{1000}, size_t{100003}, size_t{3} << 20}) {
    const std::vector<float> send = small_numbers(count, rank, count);
    const std::vector<float> sums = sums_of_small_numbers(count, size, count);
    for (const CodecId inside : {kNoCodec, kToyWhole}) {
      const Status status =
          run_coded(comm, coded_allreduce("hierarchical", kToyWhole, inside, send, recv));
      if (!status.ok()) return std::string(status.message());
      if (recv != sums) return fmt::format("wrong sums of {} on rank {}", count, rank);
    }
    // Less is said here: all ranks are to have the same.
    for (const CodecId inside : {kNoCodec, kToy}) {
      const Status status =
          run_coded(comm, coded_allreduce("hierarchical", kToy, inside, send, recv));
      if (!status.ok()) return std::string(status.message());
      std::vector<float> least(count), most(count);
      if (banyan_allreduce(recv.data(), least.data(), count, BANYAN_FLOAT32, BANYAN_MIN, comm) !=
              BANYAN_SUCCESS ||
          banyan_allreduce(recv.data(), most.data(), count, BANYAN_FLOAT32, BANYAN_MAX, comm) !=
              BANYAN_SUCCESS)
        return banyan_last_error(comm);
      if (least != most) return fmt::format("the ranks have different sums of {}", count);
    }
  }
  return "";
}

}  // namespace
}  // namespace banyan::test

int main() {
  using banyan::test::use_toys;
  banyan_comm_t comm = nullptr;
  if (banyan_comm_init_env(&comm, nullptr) != BANYAN_SUCCESS) {
    fmt::print("{}\n", banyan_last_error(nullptr));
    return 1;
  }
  int rank = -1, size = 0;
  banyan_comm_rank(comm, &rank);
  banyan_comm_size(comm, &size);
  use_toys(comm);
  const std::string wrong = banyan::test::run(comm, rank, size);
  if (!wrong.empty()) fmt::print("{}\n", wrong);
  if (wrong.empty() && rank == 0) fmt::print("{} ranks have the sums of their codecs\n", size);
  if (wrong.empty()) banyan_comm_finalize(comm);
  banyan_comm_destroy(comm);
  return wrong.empty() ? 0 : 1;
}
