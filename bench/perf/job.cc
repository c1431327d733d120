// Thin wrappers around the C calls.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/job.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "bench/perf/device.h"
#include "src/c_api/inspect.h"

namespace banyan::perf {

namespace {

constexpr size_t kPage = 4096;
constexpr std::align_val_t kAlignment{kPage};

}  // namespace

Status status_of(banyan_result_t result, banyan_comm_t comm) {
  if (result == BANYAN_SUCCESS) return {};
  const char* text = banyan_last_error(comm);
  const bool silent = text == nullptr || *text == '\0';
  return {static_cast<Code>(result), silent ? banyan_result_string(result) : text};
}

// For as long as it lives.
class Job::Unlogged {
 public:
  explicit Unlogged(Job& job) : job_(job) {
    if (job_.logged_) (void)log_calls(job_.comm_, false);
  }
  Unlogged(const Unlogged&) = delete;
  Unlogged& operator=(const Unlogged&) = delete;
  ~Unlogged() {
    if (job_.logged_) (void)log_calls(job_.comm_, true);
  }

 private:
  Job& job_;
};

Result<std::unique_ptr<Job>> Job::join(const banyan_unique_id_t* id, int rank, int size,
                                       bool invariant) {
  std::unique_ptr<Job> job(new Job);
  banyan_config_t config = BANYAN_CONFIG_INIT;
  if (invariant) config.determinism = BANYAN_INVARIANT;
  BANYAN_TRY(status_of(id == nullptr ? banyan_comm_init_env(&job->comm_, &config)
                                     : banyan_comm_init(&job->comm_, size, id, rank, &config),
                       nullptr));
  BANYAN_TRY(job->find_places());
  return job;
}

Result<std::unique_ptr<Job>> Job::again() {
  const Unlogged own(*this);
  std::unique_ptr<Job> job(new Job);
  BANYAN_TRY(status_of(banyan_comm_split(comm_, 0, rank_, &job->comm_, nullptr), comm_));
  BANYAN_TRY(job->find_places());
  return job;
}

Job::~Job() {
  if (comm_ == nullptr) return;
  if (!finalized_) banyan_comm_abort(comm_);
  banyan_comm_destroy(comm_);
}

Status Job::find_places() {
  BANYAN_TRY(status_of(banyan_comm_rank(comm_, &rank_), comm_));
  BANYAN_TRY(status_of(banyan_comm_size(comm_, &size_), comm_));
  const Result<bool> logged = logs_calls(comm_);
  BANYAN_TRY(logged.status());
  logged_ = *logged;
  const Result<std::vector<int>> found = hosts_of(comm_);
  BANYAN_TRY(found.status());
  hosts_ = static_cast<int>(std::set<int>(found->begin(), found->end()).size());
  local_ranks_ = static_cast<int>(
      std::count(found->begin(), found->end(), (*found)[static_cast<size_t>(rank_)]));
  return {};
}

Status Job::barrier() {
  const Unlogged own(*this);
  return status_of(banyan_barrier(comm_), comm_);
}

Status Job::patient_barrier() {
  const Unlogged own(*this);
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = BANYAN_BARRIER;
  call.timeout_s = std::numeric_limits<double>::infinity();
  banyan_request_t request = nullptr;
  BANYAN_TRY(status_of(banyan_request_create(comm_, &call, &request), comm_));
  Status status = status_of(banyan_request_start(request), comm_);
  if (status.ok()) status = status_of(banyan_request_wait(request), comm_);
  banyan_request_destroy(request);
  return status;
}

Result<uint64_t> Job::sum(uint64_t value) {
  const Unlogged own(*this);
  uint64_t total = 0;
  BANYAN_TRY(
      status_of(banyan_allreduce(&value, &total, 1, BANYAN_UINT64, BANYAN_SUM, comm_), comm_));
  return total;
}

Result<std::vector<double>> Job::allreduce(std::vector<double> values, banyan_op_t op) {
  const Unlogged own(*this);
  BANYAN_TRY(status_of(
      banyan_allreduce(values.data(), values.data(), values.size(), BANYAN_FLOAT64, op, comm_),
      comm_));
  return values;
}

Result<std::vector<double>> Job::gather(const std::vector<double>& values) {
  const Unlogged own(*this);
  std::vector<double> all(rank_ == 0 ? values.size() * static_cast<size_t>(size_) : 0);
  BANYAN_TRY(status_of(banyan_gather(values.data(), rank_ == 0 ? all.data() : nullptr,
                                     values.size(), BANYAN_FLOAT64, 0, comm_),
                       comm_));
  return all;
}

Result<std::vector<std::string>> Job::gather(std::string_view text) {
  const auto longest = allreduce({static_cast<double>(text.size())}, BANYAN_MAX);
  BANYAN_TRY(longest.status());
  const auto width = std::max(static_cast<size_t>(longest->front()), size_t{1});
  const Unlogged own(*this);
  std::string padded(text);
  padded.resize(width);
  std::string all(rank_ == 0 ? width * static_cast<size_t>(size_) : 0, '\0');
  BANYAN_TRY(status_of(banyan_gather(padded.data(), rank_ == 0 ? all.data() : nullptr, width,
                                     BANYAN_UINT8, 0, comm_),
                       comm_));
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < all.size(); begin += width)
    texts.emplace_back(all.substr(begin, width).c_str());
  return texts;
}

Result<std::vector<uint64_t>> Job::allgather(uint64_t value) {
  const Unlogged own(*this);
  std::vector<uint64_t> all(static_cast<size_t>(size_));
  BANYAN_TRY(status_of(banyan_allgather(&value, all.data(), 1, BANYAN_UINT64, comm_), comm_));
  return all;
}

Status Job::broadcast(void* bytes, size_t count) {
  const Unlogged own(*this);
  return status_of(banyan_broadcast(bytes, bytes, count, BANYAN_UINT8, 0, comm_), comm_);
}

Status Job::finalize() {
  BANYAN_TRY(status_of(banyan_comm_finalize(comm_), comm_));
  finalized_ = true;
  return {};
}

Result<Memory> Memory::allocate(Job& job, size_t bytes, Home home) {
  Memory memory;
  if (bytes == 0) return memory;
  memory.size_ = bytes;
  if (home == Home::kDevice || home == Home::kManaged) {
    const bool managed = home == Home::kManaged;
    const Result<std::byte*> found = allocate_on_device(job.rank(), bytes, managed);
    BANYAN_TRY(found.status());
    memory.managed_ = managed;
    (managed ? memory.data_ : memory.device_) = *found;
  }
  if (home == Home::kShared) {
    void* found = nullptr;
    BANYAN_TRY(status_of(banyan_mem_alloc(job.comm(), &found, bytes), job.comm()));
    memory.data_ = static_cast<std::byte*>(found);
    memory.comm_ = job.comm();
  } else if (home != Home::kManaged) {
    void* found = ::operator new(bytes, kAlignment, std::nothrow);
    if (found == nullptr)
      return Status(Code::kSystem, fmt::format("no memory for a buffer of {} bytes", bytes));
    memory.data_ = static_cast<std::byte*>(found);
  }
  std::memset(memory.data_, 0, bytes);
  BANYAN_TRY(memory.upload(0, bytes));
  return memory;
}

Status Memory::upload(size_t begin, size_t bytes) const {
  if (device_ == nullptr || bytes == 0) return {};
  return copy_to_device(device_ + begin, data_ + begin, bytes);
}

Status Memory::download(size_t begin, size_t bytes) const {
  if (device_ == nullptr || bytes == 0) return {};
  return copy_from_device(data_ + begin, device_ + begin, bytes);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  comm_ = std::exchange(other.comm_, nullptr);
  device_ = std::exchange(other.device_, nullptr);
  managed_ = std::exchange(other.managed_, false);
  return *this;
}

Memory::~Memory() {
  release();
}

void Memory::release() {
  if (device_ != nullptr) free_on_device(std::exchange(device_, nullptr));
  if (data_ == nullptr) return;
  if (managed_) {
    free_on_device(data_);
  } else if (comm_ == nullptr) {
    ::operator delete(data_, kAlignment);
  } else {
    banyan_mem_free(comm_, data_);
  }
  data_ = nullptr;
}

}  // namespace banyan::perf
