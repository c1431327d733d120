// One rank of a job whose sums must have the bits of plain code, wherever the launcher has put the
// ranks. Rank 0 tells how it went.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <iterator>
#include <string>

#include "tests/ranks/rank_order.h"

namespace banyan::test {
namespace {

// What went wrong; empty: nothing.
std::string check_all(banyan_comm_t comm, std::string_view codec) {
  uint64_t seed = 0;
  for (const Collective collective : kSummingCollectives)
    for (const DataType type : kFloatTypes)
      for (const size_t count : {size_t{5}, size_t{20011}}) {
        OrderedSum sum{.collective = collective,
                       .type = type,
                       .op = kSummingOps[seed / 2 % std::size(kSummingOps)],
                       .count = count,
                       .pieces = count > 20000 ? 3 : 1,
                       .seed = ++seed};
        if (seed % 3 == 0) sum.algorithm = "hierarchical";
        std::string wrong = check_ordered(comm, sum, codec);
        if (!wrong.empty()) return wrong;
      }
  return "";
}

std::string run(const char* codec, int* rank) {
  banyan_compression_t compression = BANYAN_COMPRESSION_INIT;
  compression.fidelity = BANYAN_CODEC;
  compression.codec = codec;
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.determinism = BANYAN_INVARIANT;
  config.compression = &compression;
  banyan_comm_t comm = nullptr;
  if (banyan_comm_init_env(&comm, &config) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
  banyan_comm_rank(comm, rank);
  std::string wrong = check_all(comm, codec);
  if (wrong.empty())
    banyan_comm_finalize(comm);
  else
    banyan_comm_abort(comm);
  banyan_comm_destroy(comm);
  return wrong;
}

}  // namespace
}  // namespace banyan::test

int main() {
  for (const char* codec : {"off", "int8"}) {
    int rank = -1;
    const std::string wrong = banyan::test::run(codec, &rank);
    if (!wrong.empty()) {
      fmt::print("rank {}: {}\n", rank, wrong);
      return 1;
    }
    if (rank == 0) fmt::print("the sums, compression {}, are those of plain code\n", codec);
  }
  return 0;
}
