// A job is a communicator with its memory and the small exchanges that a measurement needs, over
// the public C interface: what is measured is what users get.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "bench/machine.h"
#include "bench/perf/home.h"

namespace banyan::perf {

// A result with the library's own words.
Status status_of(banyan_result_t result, banyan_comm_t comm);

class Job {
 public:
  // With an id, as `rank` of `size`; from the environment without one. `invariant`: its sums are.
  static Result<std::unique_ptr<Job>> join(const banyan_unique_id_t* id, int rank, int size,
                                           bool invariant);
  // Puts the same ranks into a communicator of its own, with its own memory to share: what an
  // accident of one communicator is, another one may not have. Collective.
  Result<std::unique_ptr<Job>> again();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();  // aborts what is not finalized

  banyan_comm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int hosts() const { return hosts_; }
  int local_ranks() const { return local_ranks_; }

  // Calls of the benchmark's own, which are not in the library's log beside those that it measures.
  Status barrier();
  // Waits without a time limit, for ranks that wait while others work. A lost rank ends it, a
  // frozen one does not.
  Status patient_barrier();
  Result<uint64_t> sum(uint64_t value);
  Result<std::vector<double>> allreduce(std::vector<double> values, banyan_op_t op);
  // Everybody's values one after the other at rank 0, nothing elsewhere. As many on every rank.
  Result<std::vector<double>> gather(const std::vector<double>& values);
  Result<std::vector<uint64_t>> allgather(uint64_t value);
  // Everybody's text at rank 0, nothing elsewhere.
  Result<std::vector<std::string>> gather(std::string_view text);
  // Rank 0's bytes everywhere.
  Status broadcast(void* bytes, size_t count);

  Status finalize();

 private:
  class Unlogged;

  Job() = default;
  Status find_places();

  banyan_comm_t comm_ = nullptr;
  bool finalized_ = false;
  bool logged_ = false;  // calls on it are
  int rank_ = 0;
  int size_ = 1;
  int hosts_ = 1;
  int local_ranks_ = 1;
};

// Page-aligned memory, every page of which has been written to. What lies on a device has a twin on
// the host, which is what data() gives.
class Memory {
 public:
  static Result<Memory> allocate(Job& job, size_t bytes, Home home);
  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // What calls are given.
  std::byte* home() const { return device_ != nullptr ? device_ : data_; }
  // Copy a part to the device and back; nothing, where there is none.
  Status upload(size_t begin, size_t bytes) const;
  Status download(size_t begin, size_t bytes) const;

 private:
  void release();

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  banyan_comm_t comm_ = nullptr;  // null: not the library's
  std::byte* device_ = nullptr;   // null: it has no twin
  bool managed_ = false;          // data_ is the driver's
};

// For the largest size; smaller sizes use their beginning.
struct Buffers {
  Memory input;
  Memory output;  // empty where one buffer serves for both
};

}  // namespace banyan::perf
