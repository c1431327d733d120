// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/backend.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <Python.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <optional>
#include <utility>

namespace banyan::process_group {
namespace {

using std::chrono::milliseconds;

// How long a rank that ends waits for the others to have come as far.
constexpr milliseconds kPatience{5000};

Settings with_timeout(Settings settings, milliseconds timeout) {
  settings.timeout_s = static_cast<double>(timeout.count()) / 1000;
  if (settings.init_timeout_s <= 0) settings.init_timeout_s = settings.timeout_s;
  return settings;
}

// Python may drop the last reference with its lock held, for which a callback in our threads waits.
class WithoutPython {
 public:
  WithoutPython() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) state_ = PyEval_SaveThread();
  }
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;
  ~WithoutPython() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace

void Calls::run(std::vector<banyan_call_t> calls) const {
  for (banyan_call_t& call : calls) call.timeout_s = timeout_s;
  if (turn.on_device())
    comm.enqueue(std::move(calls), turn.native_stream(), what);
  else
    comm.run(calls, what);
}

void Calls::finish(banyan_call_t call) const {
  turn.settle(ended);
  call.timeout_s = timeout_s;
  comm.run({&call, 1}, what);
}

ProcessGroupBanyan::ProcessGroupBanyan(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                       int size, milliseconds timeout, const Settings& settings)
    : Backend(rank, size),
      process_(getpid()),
      store_(store),
      settings_(settings),
      timeout_ms_(timeout.count()),
      first_timeout_ms_(timeout.count()) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "banyan: the timeout of the group is ", timeout.count(),
                    " ms; valid: above 0");
  const Settings mine = with_timeout(settings, timeout);
  comm_ = Comm::meet(*store, rank, size, mine);
  if (size > 1) messages_ = std::make_unique<Messages>(comm_->twin(mine), rank, size, streams_);
  init();
}

ProcessGroupBanyan::~ProcessGroupBanyan() {
  if (getpid() != process_) {
    comm_->leak();
    if (messages_) messages_.release()->leak();
    (void)fifo_.release();
    return;
  }
  const WithoutPython released;
  leave();
  fifo_.reset();
  messages_.reset();
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupBanyan::getBackendOptions() {
  return c10::make_intrusive<Options>("banyan", milliseconds(timeout_ms_));
}

void ProcessGroupBanyan::startCoalescing() {
  const std::lock_guard lock(coalescing_mutex_);
  coalescing_ = true;
  coalesced_.clear();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupBanyan::endCoalescing() {
  std::vector<WorkRef> parts;
  {
    const std::lock_guard lock(coalescing_mutex_);
    TORCH_CHECK(coalescing_, "banyan: coalescing ends that has not started");
    coalescing_ = false;
    parts = std::exchange(coalesced_, {});
  }
  return all_of(getRank(), std::move(parts), sequence_);
}

void ProcessGroupBanyan::setTimeout(milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "banyan: the timeout is ", timeout.count(),
                    " ms; valid: above 0");
  timeout_ms_ = timeout.count();
}

c10d::ErrorType ProcessGroupBanyan::getError() {
  banyan_result_t error = BANYAN_SUCCESS;
  if (banyan_comm_async_error(comm_->handle(), &error) != BANYAN_SUCCESS || error == BANYAN_SUCCESS)
    return c10d::ErrorType::SUCCESS;
  if (error == BANYAN_ERR_TIMEOUT) return c10d::ErrorType::TIMEOUT;
  return error == BANYAN_ERR_PEER_LOST ? c10d::ErrorType::REMOTE_ERROR
                                       : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroupBanyan::end() {
  if (ended_->exchange(true)) return;
  comm_->abort();
  if (messages_) messages_->abort();
}

void ProcessGroupBanyan::abort() {
  if (getpid() == process_) end();
}

void ProcessGroupBanyan::shutdown() {
  if (getpid() == process_) leave();
}

void ProcessGroupBanyan::leave() {
  if (*ended_) return;
  // Ranks leave together where they can: one that goes away is a failure to those that still work.
  if (fifo_->drain(kPatience)) {
    const Fifo::Job together = [this] {
      banyan_call_t call = BANYAN_CALL_INIT;
      call.collective = BANYAN_BARRIER;
      call.timeout_s = static_cast<double>(kPatience.count()) / 1000;
      try {
        comm_->run({&call, 1}, "shutdown");
      } catch (const std::exception&) {
        // Whoever did not come has failed or is elsewhere, and will say so there.
      }
    };
    (void)fifo_->run_now(together);
  }
  end();
}

void ProcessGroupBanyan::check_usable(const char* what) const {
  TORCH_CHECK(getpid() == process_, "banyan ", what,
              ": this process is a child of fork(), which has no part in its parent's group; "
              "make a group of its own by init_process_group");
  TORCH_CHECK(!*ended_, "banyan ", what, ": the group has been destroyed or aborted");
}

void ProcessGroupBanyan::check_rank(const char* what, int64_t rank) const {
  TORCH_CHECK(rank >= 0 && rank < getSize(), "banyan ", what, ": rank ", rank,
              " is not in the group; valid: 0 to ", getSize() - 1);
}

void ProcessGroupBanyan::check_root(const char* what, int64_t rank) const {
  TORCH_CHECK(rank >= 0 && rank < getSize(), "banyan ", what, ": invalid root rank ", rank,
              "; valid: 0 to ", getSize() - 1);
}

milliseconds ProcessGroupBanyan::chosen(milliseconds asked) const {
  return asked == c10d::kUnsetTimeout || asked.count() == 0 ? milliseconds(timeout_ms_) : asked;
}

double ProcessGroupBanyan::timeout_of(milliseconds asked) const {
  const int64_t timeout_ms = chosen(asked).count();
  return timeout_ms == first_timeout_ms_ ? 0 : static_cast<double>(timeout_ms) / 1000;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupBanyan::noted(WorkRef work) {
  const std::lock_guard lock(coalescing_mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupBanyan::submit(const Op& op, const Tensors& inputs,
                                                          Tensors outputs, Body body) {
  check_usable(op.what);
  const std::optional<c10::Device> device = device_of(op.what, inputs, outputs);
  const DeviceMark place = device ? DeviceMark::here(*device) : DeviceMark();
  auto work = c10::make_intrusive<Work>(getRank(), op.type, op.title, inputs, outputs, ++sequence_,
                                        op.lists);
  if (device) work->watch(comm_->handle(), ended_);
  Fifo::Job job = [this, op, device, place, work, inputs, outputs = std::move(outputs),
                   body = std::move(body), timeout_s = timeout_of(op.timeout)] {
    std::optional<DeviceTurn> turn;  // to the end: it is in its stream that the work ends
    try {
      // Tensors of inference mode are written, too; callbacks of the future are not in here.
      const c10::NoGradGuard no_grad;
      const at::AutoDispatchBelowADInplaceOrView as_memory;
      turn.emplace(device, streams_);
      turn->uses(inputs);
      turn->uses(outputs);
      place.block_current_stream();
      body(Calls{*comm_, *turn, *ended_, timeout_s, op.what, getRank(), getSize()});
    } catch (...) {
      work->fail(std::current_exception());
      return;
    }
    work->complete();
  };
  // What is only enqueued keeps no caller waiting.
  const bool at_once = device.has_value() || !op.async;
  if (!at_once || !fifo_->run_now(job)) fifo_->push(std::move(job));
  return noted(work);
}

}  // namespace banyan::process_group
