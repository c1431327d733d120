// A case is one collective call with its inputs, its expected result, and everything around the
// buffers that must keep its bytes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/types.h"
#include "tests/ranks/ranks.h"
#include "tests/ranks/ranks_values.h"

namespace banyan::test {

inline constexpr Collective kCollectives[] = {
    Collective::kAllreduce,      Collective::kReduce,     Collective::kBroadcast,
    Collective::kAllgather,      Collective::kAllgatherv, Collective::kReduceScatter,
    Collective::kReduceScatterv, Collective::kAlltoall,   Collective::kAlltoallv,
    Collective::kGather,         Collective::kScatter,    Collective::kBarrier};

constexpr bool has_root(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

struct Case {
  Collective collective = Collective::kAllreduce;
  size_t count = 0;
  int root = 0;
  bool in_place = false;
  size_t skew = 0;                  // bytes by which buffers are not aligned
  const char* algorithm = nullptr;  // null: the blocking call
  bool twice = false;               // the second time has the same bits
  bool shared = false;              // buffers from banyan_mem_alloc
};
std::string describe(const Case& call, const Table& table);

// The blocking function for a call as a value.
banyan_result_t call_blocking(const banyan_call_t& call, banyan_comm_t comm);
// Create, start, wait, destroy; the first result that is no success.
banyan_result_t call_request(const banyan_call_t& call, banyan_comm_t comm);

struct Layout;

// Has memory in which the buffers of a case lie instead. A null is a failure that was told.
class Lender {
 public:
  virtual ~Lender() = default;
  // The same bytes there, or memory.data() itself.
  virtual std::byte* lend(Memory& memory) = 0;
  // And back from there.
  virtual void take_back(std::byte* lent, Memory& memory) = 0;
};

// Runs cases on one communicator, as one rank. Buffers are kept between cases.
class Bench {
 public:
  // `make` makes the calls; by default they are blocking ones, or requests where an algorithm is
  // asked for.
  using Make = std::function<banyan_result_t(const banyan_call_t&, banyan_comm_t)>;
  Bench(Rank& rank, banyan_comm_t comm, Make make = {});
  ~Bench();

  // From now on, for cases that are not Case::shared. It outlives this.
  void use(Lender& lender) { lender_ = &lender; }

  // False: the call failed, so the communicator has. `op` is table.op() or a handle of premulsum.
  bool run(const Case& call, const Table& table, banyan_op_t op);
  // With a premulsum handle of its own where the table is one of premulsum.
  bool run(const Case& call, const Table& table);
  // Digests the results so far that are the same on all ranks.
  uint64_t digest() const { return digest_; }
  long calls() const { return calls_; }

 private:
  void check(const Case& call, const Table& table, const Layout& layout, const Memory& got);

  Rank& rank_;
  banyan_comm_t comm_;
  Make make_;
  std::unique_ptr<Lender> shared_;
  Lender* lender_ = nullptr;  // null: the buffers themselves
  Memory first_, second_, sent_, expected_;
  uint64_t digest_ = 0xcbf29ce484222325ULL;
  long calls_ = 0;
  int failures_ = 0;
};

}  // namespace banyan::test
