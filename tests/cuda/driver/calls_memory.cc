// The driver's functions for memory, as the CUDA Driver API has them.
// SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda/driver/calls.h"

namespace banyan::standin {
namespace {

using Address = unsigned long long;

bool is_pageable(uintptr_t address) {
  return !Machine::the().memory.find(address).has_value();
}

int copy(uintptr_t to, uintptr_t from, size_t bytes, void* handle) {
  Machine& machine = Machine::the();
  const std::shared_ptr<Stream> stream = machine.stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  std::byte* const into = machine.memory.inside(to, bytes);
  const std::byte* const out_of = machine.memory.inside(from, bytes);
  if (into == nullptr || out_of == nullptr) return kInvalidValue;
  if (is_pageable(from)) {  // has been read when this returns
    const auto kept = std::make_shared<std::vector<std::byte>>(out_of, out_of + bytes);
    machine.submit(*stream, [=] { std::memcpy(into, kept->data(), bytes); });
  } else {
    machine.submit(*stream, [=] { std::memcpy(into, out_of, bytes); });
  }
  if (!is_pageable(to) || stream->capture != nullptr) return kSuccess;
  const auto [done, count] = stream->last();  // has been written
  done->wait(count);
  return kSuccess;
}

int copy_now(uintptr_t to, uintptr_t from, size_t bytes) {
  const int result = copy(to, from, bytes, nullptr);
  if (result != kSuccess) return result;
  const auto [done, count] = Machine::the().stream(nullptr)->last();
  done->wait(count);
  return kSuccess;
}

uintptr_t number(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

int current_device() {
  return Machine::current().back()->device;
}

}  // namespace
}  // namespace banyan::standin

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): its functions have C
                                  // names

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
extern "C" {

int cuMemAlloc_v2(Address* address, size_t bytes) {
  ENTER_WITH_CONTEXT(cuMemAlloc_v2);
  if (address == nullptr || bytes == 0) return kInvalidValue;
  *address = Machine::the().memory.allocate(bytes, Kind::kDevice, current_device());
  return *address != 0 ? kSuccess : kOutOfMemory;
}

int cuMemFree_v2(Address address) {
  ENTER_WITH_CONTEXT(cuMemFree_v2);
  Machine& machine = Machine::the();
  machine.finish(*Machine::current().back());
  return address == 0 || machine.memory.remove(address, Kind::kDevice, false) ? kSuccess
                                                                              : kInvalidValue;
}

int cuMemAllocManaged(Address* address, size_t bytes, unsigned /*flags*/) {
  ENTER_WITH_CONTEXT(cuMemAllocManaged);
  if (address == nullptr || bytes == 0) return kInvalidValue;
  *address = Machine::the().memory.allocate(bytes, Kind::kManaged, current_device());
  return *address != 0 ? kSuccess : kOutOfMemory;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  ENTER_WITH_CONTEXT(cuMemHostAlloc);
  if (memory == nullptr || bytes == 0 || flags > 7) return kInvalidValue;
  const uintptr_t made = Machine::the().memory.allocate(bytes, Kind::kPinned, current_device());
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ranges are kept as numbers
  *memory = reinterpret_cast<void*>(made);
  return made != 0 ? kSuccess : kOutOfMemory;
}

int cuMemAllocHost_v2(void** memory, size_t bytes) {
  return cuMemHostAlloc(memory, bytes, 0);
}

int cuMemFreeHost(void* memory) {
  ENTER(cuMemFreeHost);
  return Machine::the().memory.remove(number(memory), Kind::kPinned, false) ? kSuccess
                                                                            : kInvalidValue;
}

int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  ENTER_WITH_CONTEXT(cuMemHostRegister_v2);
  if (memory == nullptr || bytes == 0 || flags > 15) return kInvalidValue;
  return Machine::the().memory.add(number(memory), bytes, current_device()) ? kSuccess
                                                                            : kAlreadyRegistered;
}

int cuMemHostUnregister(void* memory) {
  ENTER(cuMemHostUnregister);
  return Machine::the().memory.remove(number(memory), Kind::kPinned, true) ? kSuccess
                                                                           : kNotRegistered;
}

int cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned flags) {
  ENTER_WITH_CONTEXT(cuMemHostGetDevicePointer_v2);
  const auto found = Machine::the().memory.find(number(memory));
  if (!found || found->kind != Kind::kPinned || flags != 0) return kInvalidValue;
  *address = number(memory);
  return kSuccess;
}

int cuMemcpyAsync(Address to, Address from, size_t bytes, void* stream) {
  ENTER_WITH_CONTEXT(cuMemcpyAsync);
  return copy(to, from, bytes, stream);
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  ENTER_WITH_CONTEXT(cuMemcpyHtoDAsync_v2);
  return copy(to, number(from), bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  ENTER_WITH_CONTEXT(cuMemcpyDtoHAsync_v2);
  return copy(number(to), from, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  ENTER_WITH_CONTEXT(cuMemcpyDtoDAsync_v2);
  return copy(to, from, bytes, stream);
}

int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  ENTER_WITH_CONTEXT(cuMemcpyHtoD_v2);
  return copy_now(to, number(from), bytes);
}

int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  ENTER_WITH_CONTEXT(cuMemcpyDtoH_v2);
  return copy_now(number(to), from, bytes);
}

int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* handle) {
  ENTER_WITH_CONTEXT(cuMemsetD8Async);
  Machine& machine = Machine::the();
  const std::shared_ptr<Stream> stream = machine.stream(handle);
  std::byte* const into = machine.memory.inside(to, bytes);
  if (stream == nullptr || into == nullptr) return kInvalidValue;
  machine.submit(*stream, [=] { std::memset(into, value, bytes); });
  return kSuccess;
}

int cuPointerGetAttribute(void* value, int attribute, Address address) {
  ENTER(cuPointerGetAttribute);
  const auto found = Machine::the().memory.find(address);
  if (!found || value == nullptr) return kInvalidValue;
  const bool on_device = found->kind != Kind::kPinned;
  switch (attribute) {
    case 1: *static_cast<void**>(value) = Machine::the().context(found->device); break;
    case 2: *static_cast<unsigned*>(value) = on_device ? 2 : 1; break;
    case 3:
    case 4:
      if (attribute == 4 && found->kind == Kind::kDevice) return kInvalidValue;
      *static_cast<Address*>(value) = address;
      break;
    case 7: *static_cast<unsigned long long*>(value) = found->id; break;
    case 8: *static_cast<unsigned*>(value) = found->kind == Kind::kManaged ? 1 : 0; break;
    case 9: *static_cast<int*>(value) = found->device; break;
    case 11: *static_cast<Address*>(value) = found->begin; break;
    case 12: *static_cast<size_t*>(value) = found->bytes; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
