// Modules, functions and launches. Every image is taken for that of compression/cuda/kernels.cu,
// whose host build does the work on the driver's own addresses of what callers point to.
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compression/cuda/spans.h"
#include "tests/cuda/driver/state.h"
#include "tests/cuda/driver/submit.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

using banyan::test::HostKernel;
using banyan::test::KernelMemory;

constexpr unsigned kMostThreads = 1024;

struct Grid {
  unsigned x, y, z;
};

bool is_grid(Grid grid, unsigned most_of_yz) {
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= most_of_yz && grid.z <= most_of_yz;
}

// Null where nothing is to be there; none where the device cannot reach all of it.
std::optional<std::byte*> reach(const Context& context, const void* memory, uint64_t bytes,
                                Work* work) {
  if (memory == nullptr) return bytes == 0 ? std::optional<std::byte*>(nullptr) : std::nullopt;
  const Located found = state().memory.locate(address_of(memory), bytes);
  if (!found.whole || found.is_pageable()) return std::nullopt;
  const bool elsewhere = found.of->sort == MemorySort::kDevice && found.of->context != &context;
  if (elsewhere && !context.allows_peer(found.of->context->device())) return std::nullopt;
  // What a kernel does with it is not known.
  if (!found.may_be_used_by(context.device(), false)) return std::nullopt;
  found.add_to(work->uses);
  return found.own;
}

// An address that the device cannot reach is an error of the context from then on.
Work kernel_work(const Context& context, const HostKernel& kernel, const void* told,
                 unsigned blocks) {
  Work work;
  std::vector<std::byte> call(kernel.call_bytes);
  std::memcpy(call.data(), told, call.size());
  for (const KernelMemory& memory : kernel.memory(told)) {
    void* address = nullptr;
    std::memcpy(&address, call.data() + memory.offset, sizeof address);
    const auto own = reach(context, address, memory.bytes, &work);
    if (!own) {
      std::fprintf(stderr, "stand-in CUDA: %s: the device does not reach all of %llu bytes at %p\n",
                   std::string(kernel.name).c_str(), static_cast<unsigned long long>(memory.bytes),
                   address);
      work.run = [](const Running& running) { running.context.break_with(kIllegalAddress); };
      return work;
    }
    std::memcpy(call.data() + memory.offset, &*own, sizeof *own);
  }
  work.run = [&kernel, call = std::move(call), blocks](const Running&) {
    kernel.run(call.data(), blocks);
  };
  return work;
}

}  // namespace

int cuModuleLoadData(CuHandle* module, const void* image) {
  return unsafe_call(__func__, [&](Context& context) {
    if (module == nullptr) return kInvalidValue;
    if (image == nullptr) return kInvalidImage;
    *module = state().modules.add(std::make_shared<LoadedModule>(LoadedModule{context}));
    return kSuccess;
  });
}

int cuModuleUnload(CuHandle module) {
  return unsafe_call(__func__, [&](Context&) {
    const std::shared_ptr<LoadedModule> taken = state().modules.take(module);
    if (taken == nullptr) return kInvalidHandle;
    (void)state().functions.take_all(
        [&](const LoadedFunction& function) { return function.module == taken; });
    return kSuccess;
  });
}

int cuModuleGetFunction(CuHandle* function, CuHandle module, const char* name) {
  return call_in_context(__func__, [&](Context&) {
    if (function == nullptr || name == nullptr) return kInvalidValue;
    std::shared_ptr<LoadedModule> in = state().modules.find(module);
    if (in == nullptr) return kInvalidHandle;
    const HostKernel* kernel = banyan::test::find_host_kernel(name);
    if (kernel == nullptr) return kNotFound;
    *function = state().functions.add(
        std::make_shared<LoadedFunction>(LoadedFunction{std::move(in), kernel}));
    return kSuccess;
  });
}

int cuLaunchKernel(CuHandle function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared, CuHandle stream,
                   void** parameters, void** extra) {
  return call_on_stream(__func__, stream, [&](Context& context, const SharedStream& found) {
    const std::shared_ptr<LoadedFunction> loaded = state().functions.find(function);
    if (loaded == nullptr || &loaded->module->context != &context || &found->context() != &context)
      return kInvalidHandle;
    if (!is_grid({x, y, z}, 65535) || !is_grid({threads_x, threads_y, threads_z}, kMostThreads) ||
        threads_x * threads_y * threads_z > kMostThreads || shared > 48 * 1024 ||
        parameters == nullptr || parameters[0] == nullptr)
      return kInvalidValue;
    const bool as_compiled =
        threads_x == banyan::kCudaThreads && threads_y * threads_z * y * z == 1;
    if (!as_compiled || extra != nullptr) return kNotSupported;
    return submit(found, kernel_work(context, *loaded->kernel, parameters[0], x)).result;
  });
}
