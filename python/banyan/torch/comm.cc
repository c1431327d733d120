// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/comm.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "python/core/dispatch.h"

namespace banyan::process_group {
namespace {

// The keys of one meeting: every gathering has its number, and every rank its place in it.
struct Exchange {
  c10d::Store* store;
  int rank, size;
  std::chrono::milliseconds timeout;
  int round = 0;
  std::string error;
};

std::string key_of(int round, int rank) {
  return "banyan/" + std::to_string(round) + "/" + std::to_string(rank);
}

int gather(const void* send, void* recv, size_t bytes, void* context) {
  auto& exchange = *static_cast<Exchange*>(context);
  const int round = exchange.round++;
  try {
    const auto* given = static_cast<const uint8_t*>(send);
    exchange.store->set(key_of(round, exchange.rank), std::vector<uint8_t>(given, given + bytes));
    for (int rank = 0; rank < exchange.size; ++rank) {
      const std::string key = key_of(round, rank);
      exchange.store->wait({key}, exchange.timeout);
      const std::vector<uint8_t> value = exchange.store->get(key);
      if (value.size() != bytes) {
        exchange.error = "rank " + std::to_string(rank) + " put " + std::to_string(value.size()) +
                         " bytes in the store where this rank put " + std::to_string(bytes);
        return 1;
      }
      if (bytes > 0)
        std::memcpy(static_cast<char*>(recv) + bytes * static_cast<size_t>(rank), value.data(),
                    bytes);
    }
  } catch (const std::exception& failure) {
    exchange.error = failure.what();
    return 1;
  }
  return 0;
}

// The config and what it points to.
class Config {
 public:
  explicit Config(const Settings& settings) {
    if (!settings.name.empty()) config_.name = settings.name.c_str();
    if (!settings.transports.empty()) config_.transports = settings.transports.c_str();
    config_.timeout_s = settings.timeout_s;
    config_.init_timeout_s = settings.init_timeout_s;
    config_.determinism = settings.determinism;
    if (!settings.compress) return;
    compression_.fidelity = settings.fidelity;
    compression_.bound = settings.bound;
    if (!settings.codec.empty()) compression_.codec = settings.codec.c_str();
    compression_.min_bytes = settings.min_bytes;
    compression_.seed = settings.seed;
    config_.compression = &compression_;
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  const banyan_config_t* get() const { return &config_; }

 private:
  banyan_compression_t compression_ = BANYAN_COMPRESSION_INIT;
  banyan_config_t config_ = BANYAN_CONFIG_INIT;
};

// Requests that are destroyed after the group that started them.
class Requests {
 public:
  explicit Requests(banyan_comm_t comm) : comm_(comm) {}
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests() {
    for (banyan_request_t request : made_) (void)banyan_request_destroy(request);
  }
  banyan_result_t start(const banyan_call_t& call) {
    banyan_request_t request = nullptr;
    banyan_result_t result = banyan_request_create(comm_, &call, &request);
    if (result != BANYAN_SUCCESS) return result;
    made_.push_back(request);
    return banyan_request_start(request);
  }
  banyan_result_t wait() {
    for (banyan_request_t request : made_) {
      const banyan_result_t result = banyan_request_wait(request);
      if (result != BANYAN_SUCCESS) return result;
    }
    return BANYAN_SUCCESS;
  }
  std::vector<banyan_request_t> release() { return std::exchange(made_, {}); }

 private:
  banyan_comm_t comm_;
  std::vector<banyan_request_t> made_;
};

[[noreturn]] void raise(banyan_result_t result, std::string text, const char* what,
                        banyan_comm_t comm) {
  if (text.empty()) text = banyan_result_string(result);
  int failed = -1;
  if (comm != nullptr && banyan_comm_failed_rank(comm, &failed) == BANYAN_SUCCESS && failed >= 0)
    text += " [failed rank " + std::to_string(failed) + "]";
  // By these words programs for other backends know it.
  if (result == BANYAN_ERR_TIMEOUT) text = "Timed out (" + text + ")";
  C10_THROW_ERROR(DistBackendError, std::string("banyan ") + what + ": " + text);
}

}  // namespace

void check(banyan_result_t result, const char* what, banyan_comm_t comm) {
  if (result != BANYAN_SUCCESS) raise(result, banyan_last_error(nullptr), what, comm);
}

void check_alive(banyan_comm_t comm, const char* what) {
  banyan_result_t error = BANYAN_SUCCESS;
  if (banyan_comm_async_error(comm, &error) == BANYAN_SUCCESS && error != BANYAN_SUCCESS)
    raise(error, banyan_last_error(comm), what, comm);
}

std::unique_ptr<Comm> Comm::meet(c10d::Store& store, int rank, int size, const Settings& settings) {
  Exchange exchange{.store = &store, .rank = rank, .size = size, .timeout = {}, .error = {}};
  exchange.timeout = std::chrono::milliseconds(
      static_cast<int64_t>(std::min(settings.init_timeout_s, 1e9) * 1000));
  const banyan_exchange_t given{sizeof(banyan_exchange_t), rank, size, gather, &exchange};
  const Config config(settings);
  banyan_comm_t handle = nullptr;
  const banyan_result_t result = banyan_comm_init_exchange(&handle, &given, config.get());
  if (result != BANYAN_SUCCESS && !exchange.error.empty())
    C10_THROW_ERROR(DistBackendError,
                    "banyan: the store failed while ranks met: " + exchange.error);
  check(result, "init", nullptr);
  return std::make_unique<Comm>(handle);
}

std::unique_ptr<Comm> Comm::twin(const Settings& settings) {
  const Config config(settings);
  banyan_comm_t handle = nullptr;
  check(banyan_comm_split(handle_, 0, 0, &handle, config.get()), "init", handle_);
  return std::make_unique<Comm>(handle);
}

Comm::~Comm() {
  if (handle_ == nullptr) return;
  (void)banyan_comm_abort(handle_);
  for (banyan_request_t request : enqueued_) (void)banyan_request_destroy(request);
  (void)banyan_comm_destroy(handle_);
}

void Comm::run(std::span<const banyan_call_t> calls, const char* what) {
  const bool grouped = calls.size() > 1;
  Requests requests(handle_);
  banyan_result_t result = BANYAN_SUCCESS;
  if (grouped) check(banyan_group_start(), what, handle_);
  for (const banyan_call_t& call : calls) {
    result = call.timeout_s > 0 ? requests.start(call) : python::dispatch(call, handle_);
    if (result != BANYAN_SUCCESS) break;
  }
  if (grouped) {
    const banyan_result_t ended = banyan_group_end();
    if (result == BANYAN_SUCCESS) result = ended;
  }
  if (result == BANYAN_SUCCESS) result = requests.wait();
  check(result, what, handle_);
}

void Comm::drop_ended() {
  while (!enqueued_.empty()) {
    int done = 0;
    (void)banyan_request_test(enqueued_.front(), &done);
    if (done == 0) return;
    (void)banyan_request_destroy(enqueued_.front());
    enqueued_.pop_front();
  }
}

void Comm::enqueue(std::vector<banyan_call_t> calls, void* stream, const char* what) {
  drop_ended();
  const bool grouped = calls.size() > 1;
  Requests requests(handle_);
  banyan_result_t result = BANYAN_SUCCESS;
  if (grouped) check(banyan_group_start(), what, handle_);
  for (banyan_call_t& call : calls) {
    call.on_stream = 1;
    call.stream = stream;
    result = requests.start(call);
    if (result != BANYAN_SUCCESS) break;
  }
  if (grouped) {
    const banyan_result_t ended = banyan_group_end();
    if (result == BANYAN_SUCCESS) result = ended;
  }
  check(result, what, handle_);
  for (banyan_request_t request : requests.release()) enqueued_.push_back(request);
}

}  // namespace banyan::process_group
