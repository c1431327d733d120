// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/machine.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/cuda/driver/standin.h"

namespace banyan::standin {
namespace {

unsigned number_from(const char* variable, unsigned otherwise) {
  const char* said = std::getenv(variable);
  return said == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(said, nullptr, 10));
}

}  // namespace

// Its streams' threads may run to the end of the process.
Machine& Machine::the() {
  static auto* machine = new Machine;
  return *machine;
}

Machine::Machine()
    : contexts_(number_from("STANDIN_CUDA_DEVICES", 2)),
      next_seed_(number_from("STANDIN_CUDA_SEED", 1)) {
  for (size_t device = 0; device < contexts_.size(); ++device)
    contexts_[device].device = static_cast<int>(device);
}

ContextStack& Machine::current() {
  static thread_local ContextStack stack;
  return stack;
}

int Machine::enter(std::string_view function) {
  if (in_host_function()) return kNotPermitted;
  if (const int error = broken.load(); error != kSuccess) return error;
  const std::lock_guard lock(mutex_);
  Fault& fault = faults_[std::string(function)];
  ++fault.calls;
  if (fault.error == kSuccess) return kSuccess;
  if (fault.after-- > 0) return kSuccess;
  return std::exchange(fault.error, int{kSuccess});
}

void Machine::fail(std::string_view function, int after, int error) {
  const std::lock_guard lock(mutex_);
  Fault& fault = faults_[std::string(function)];
  fault.after = after;
  fault.error = error;
}

long Machine::calls(std::string_view function) {
  const std::lock_guard lock(mutex_);
  return faults_[std::string(function)].calls;
}

std::shared_ptr<Stream> Machine::make_stream(Context& context, bool ordered) {
  const std::lock_guard lock(mutex_);
  auto made = std::make_shared<Stream>(context.device, ordered, next_seed_++);
  context.streams.insert(made);
  return made;
}

bool Machine::destroy_stream(void* handle) {
  const std::lock_guard lock(mutex_);
  for (Context& context : contexts_)
    for (const std::shared_ptr<Stream>& stream : context.streams) {
      if (stream.get() != handle) continue;
      stream->close();
      context.streams.erase(stream);
      return true;
    }
  return false;
}

std::shared_ptr<Stream> Machine::stream(void* handle) {
  const std::lock_guard lock(mutex_);
  if (reinterpret_cast<uintptr_t>(handle) <= 1) {  // null and CU_STREAM_LEGACY
    if (current().empty()) return nullptr;
    Context& context = *current().back();
    if (context.legacy == nullptr)
      context.legacy = std::make_shared<Stream>(context.device, true, next_seed_++);
    return context.legacy;
  }
  for (const Context& context : contexts_)
    for (const std::shared_ptr<Stream>& stream : context.streams)
      if (stream.get() == handle) return stream;
  return nullptr;
}

void Machine::submit(Stream& stream, Work work,
                     std::vector<std::pair<std::shared_ptr<Progress>, uint64_t>> after) {
  if (stream.capture != nullptr) {
    stream.capture->works.push_back(std::move(work));
    return;
  }
  const std::lock_guard lock(mutex_);
  const Context& context = contexts_[static_cast<size_t>(stream.device())];
  if (&stream == context.legacy.get()) {
    for (const std::shared_ptr<Stream>& other : context.streams)
      if (other->ordered()) after.push_back(other->last());
  } else if (stream.ordered() && context.legacy != nullptr) {
    after.push_back(context.legacy->last());
  }
  stream.enqueue(std::move(work), std::move(after));
}

void Machine::finish(Context& context) {
  std::vector<std::pair<std::shared_ptr<Progress>, uint64_t>> lasts;
  {
    const std::lock_guard lock(mutex_);
    if (context.legacy != nullptr) lasts.push_back(context.legacy->last());
    for (const std::shared_ptr<Stream>& stream : context.streams) lasts.push_back(stream->last());
  }
  for (const auto& [progress, count] : lasts) progress->wait(count);
}

bool Machine::any_capture() {
  const std::lock_guard lock(mutex_);
  return std::any_of(contexts_.begin(), contexts_.end(), [](const Context& context) {
    return std::any_of(context.streams.begin(), context.streams.end(),
                       [](const auto& stream) { return stream->capture != nullptr; });
  });
}

}  // namespace banyan::standin

using banyan::standin::Machine;

void standin_cuda_fail(const char* function, int after, int error) {
  Machine::the().fail(function, after, error);
}

void standin_cuda_break(int error) {
  Machine::the().broken.store(error);
}

long standin_cuda_calls(const char* function) {
  return Machine::the().calls(function);
}

void standin_cuda_delay(unsigned most_us) {
  banyan::standin::set_delay(most_us);
}
