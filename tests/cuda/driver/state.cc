// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/state.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "tests/cuda/driver/tallies.h"

namespace banyan::standin {

namespace {

std::atomic<bool> initialized{false};
std::atomic<bool> forked{false};  // this process was made by one that had initialized it
std::atomic<bool> ending{false};
std::atomic<uint64_t> seed{1};
std::atomic<uint64_t> streams_made{0};
std::atomic<int> delay_us{200};

long variable(const char* name, long otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets them
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

// FUNCTION:ERROR,FUNCTION:ERROR, for programs that cannot ask for it.
void refuse_by_variable() {
  const char* text = std::getenv("STANDIN_CUDA_FAIL");  // NOLINT(concurrency-mt-unsafe): as above
  if (text == nullptr) return;
  std::string_view asked = text;
  for (size_t colon = asked.find(':'); colon != std::string_view::npos; colon = asked.find(':')) {
    char* end = nullptr;
    const long error = std::strtol(asked.data() + colon + 1, &end, 10);
    fail_call(asked.substr(0, colon), 0, static_cast<int>(error));
    asked = *end == '\0' ? "" : end + 1;
  }
}

// What begins no more does no harm; what has begun may be a call into parts of the program that
// are about to end.
void end_program() {
  if (forked) return;
  ending = true;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  const auto works = [] {
    return std::any_of(state().contexts.begin(), state().contexts.end(),
                       [](const auto& context) { return context->works(); });
  };
  while (works() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

State& state() {
  static auto* one = new State;
  return *one;
}

namespace {

// All of them: what a thread has only a key for is a leak at the end of the main thread.
std::mutex thread_states_mutex;
std::vector<std::unique_ptr<ThreadState>>& thread_states() {
  static auto* all = new std::vector<std::unique_ptr<ThreadState>>;
  return *all;
}

void end_thread_state(void* of_thread) {
  if (forked) return;  // the locks may be those of threads that are not here
  auto* mine = static_cast<ThreadState*>(of_thread);
  for (const SharedStream& stream : mine->default_streams)
    if (!stream->closed()) stream->close();
  const std::lock_guard lock(thread_states_mutex);
  std::erase_if(thread_states(), [&](const auto& state) { return state.get() == mine; });
}

pthread_key_t make_thread_key() {
  pthread_key_t key = 0;
  if (::pthread_key_create(&key, end_thread_state) != 0) std::abort();
  return key;
}

}  // namespace

// By a key: the C library frees the thread_local variables of libraries that are loaded late in
// ways that the thread sanitizer takes for races.
ThreadState& thread_state() {
  static const pthread_key_t key = make_thread_key();
  if (void* mine = ::pthread_getspecific(key); mine != nullptr)
    return *static_cast<ThreadState*>(mine);
  const std::lock_guard lock(thread_states_mutex);
  thread_states().push_back(std::make_unique<ThreadState>());
  ThreadState* mine = thread_states().back().get();
  if (::pthread_setspecific(key, mine) != 0) std::abort();
  return *mine;
}

uint_fast32_t next_seed() {
  const uint64_t number = streams_made.fetch_add(1, std::memory_order_relaxed);
  const uint64_t mixed = (seed.load(std::memory_order_relaxed) + number) * 0x9e37'79b9'7f4a'7c15;
  return static_cast<uint_fast32_t>(mixed >> 32);
}

int most_delay_us() {
  return delay_us.load(std::memory_order_relaxed);
}

void set_seed(uint64_t value) {
  seed.store(value, std::memory_order_relaxed);
  streams_made.store(0, std::memory_order_relaxed);
}

void set_most_delay_us(int us) {
  delay_us.store(us, std::memory_order_relaxed);
}

bool is_ending() {
  return ending;
}

void sleep_for_ever() {
  for (;;) ::pause();
}

int initialize() {
  static std::mutex mutex;
  if (forked) return kNotInitialized;
  if (const int error = count_call("cuInit"); error != kSuccess) return error;
  const std::lock_guard lock(mutex);
  if (!initialized) {
    set_seed(static_cast<uint64_t>(variable("STANDIN_CUDA_SEED", 1)));
    set_most_delay_us(static_cast<int>(variable("STANDIN_CUDA_DELAY_US", most_delay_us())));
    refuse_by_variable();
    const long devices = std::clamp(variable("STANDIN_CUDA_DEVICES", 2), 0L, 64L);
    for (int device = 0; device < devices; ++device)
      state().contexts.push_back(std::make_unique<Context>(device));
    (void)std::atexit(end_program);
    (void)::pthread_atfork(nullptr, nullptr, [] { forked = true; });
    initialized = true;
  }
  return state().contexts.empty() ? kNoDevice : kSuccess;
}

int begin_call(const char* function) {
  if (forked || !initialized) return kNotInitialized;
  if (ending) return kDeinitialized;
  if (thread_state().calls_host_function) return kNotPermitted;
  return count_call(function);
}

Context* context_of(CuHandle handle) {
  for (const auto& context : state().contexts)
    if (context->handle() == handle) return context.get();
  return nullptr;
}

int usable(const Context& context) {
  return context.active() ? context.broken() : kContextIsDestroyed;
}

CurrentContext current_context() {
  const ThreadState& mine = thread_state();
  if (mine.stack.empty()) return {kInvalidContext};
  return {usable(*mine.stack.back()), mine.stack.back()};
}

FoundStream find_stream(Context& current, CuHandle handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 1) return {kSuccess, current.legacy()};
  if (number == 2) {
    auto& mine = thread_state().default_streams;
    std::erase_if(mine, [](const SharedStream& stream) { return stream->closed(); });
    for (const SharedStream& stream : mine)
      if (&stream->context() == &current) return {kSuccess, stream};
    mine.push_back(current.add_stream(StreamOrder::kBlocking, 0));
    return {kSuccess, mine.back()};
  }
  SharedStream stream = state().streams.find(handle);
  if (stream == nullptr) return {kInvalidHandle};
  return {usable(stream->context()), stream};
}

}  // namespace banyan::standin
