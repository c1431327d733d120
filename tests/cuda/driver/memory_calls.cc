// Memory: allocations, registrations, and what addresses are.
// SPDX-License-Identifier: Apache-2.0

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "tests/cuda/driver/mapped.h"
#include "tests/cuda/driver/state.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

// Gives the allocation to the caller, if there is one.
template <typename Value>
int hand_out(const SharedAllocation& made, Value* to) {
  if (made == nullptr || !state().memory.add(made)) return kOutOfMemory;
  if constexpr (std::is_pointer_v<Value>) {
    *to = pointer_to(made->begin);
  } else {
    *to = made->begin;
  }
  return kSuccess;
}

// The work of its context ends first, as it does with CUDA.
int give_back(CuAddress begin, std::initializer_list<MemorySort> sorts, int otherwise) {
  const SharedAllocation found = state().memory.find(begin);
  if (found == nullptr || found->begin != begin) return otherwise;
  if (!found->context->synchronize()) return kDeinitialized;
  if (const int error = found->context->broken(); error != kSuccess) return error;
  return state().memory.take(begin, sorts) == nullptr ? otherwise : kSuccess;
}

bool is_mapped(void* memory, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const CuAddress begin = address_of(memory) / page * page;
  return ::msync(pointer_to(begin), address_of(memory) + bytes - begin, MS_ASYNC) == 0;
}

template <typename Value>
int put(void* to, Value value) {
  std::memcpy(to, &value, sizeof value);
  return kSuccess;
}

// CUpointer_attribute
int tell(const Allocation& allocation, int attribute, CuAddress address, void* value) {
  constexpr unsigned kHost = 1, kDevice = 2;  // CUmemorytype
  const bool managed = allocation.sort == MemorySort::kManaged;
  switch (attribute) {
    case 1: return put(value, allocation.physical ? nullptr : allocation.context->handle());
    case 2: return put(value, allocation.is_host() ? kHost : kDevice);
    case 3: return put(value, address);
    case 4:
      return allocation.is_host() || managed ? put(value, pointer_to(address)) : kInvalidValue;
    case 7: return put(value, allocation.buffer);
    case 8: return put(value, managed ? 1U : 0U);
    case 9: return put(value, allocation.context->device());
    case 10: return put(value, allocation.sort == MemorySort::kDevice);
    case 11: return put(value, allocation.begin);
    case 12: return put(value, allocation.bytes);
    case 13: return put(value, true);
    case 14:
      return put(value, uint64_t(allocation.physical ? allocation.physical->handle_types() : 0));
    default: return kInvalidValue;
  }
}

// What cuPointerGetAttributes says of memory that is not the driver's.
int tell_of_nothing(int attribute, void* value) {
  switch (attribute) {
    case 1:
    case 3:
    case 4:
    case 7:
    case 11:
    case 12:
    case 14: return put(value, uint64_t{0});
    case 2:
    case 8: return put(value, 0U);
    case 9: return put(value, -2);  // CU_DEVICE_INVALID
    case 10:
    case 13: return put(value, false);
    default: return kInvalidValue;
  }
}

}  // namespace

int cuMemAlloc_v2(CuAddress* address, size_t bytes) {
  return unsafe_call(__func__, [&](Context& context) {
    if (address == nullptr || bytes == 0) return kInvalidValue;
    return hand_out(allocate_device(context, bytes), address);
  });
}

int cuMemFree_v2(CuAddress address) {
  return unsafe_call(__func__, [&](Context&) {
    return give_back(address, {MemorySort::kDevice, MemorySort::kManaged}, kInvalidValue);
  });
}

int cuMemAllocManaged(CuAddress* address, size_t bytes, unsigned flags) {
  return unsafe_call(__func__, [&](Context& context) {
    if (address == nullptr || bytes == 0 || (flags != 1 && flags != 2)) return kInvalidValue;
    return hand_out(allocate_shared(context, MemorySort::kManaged, bytes), address);
  });
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return unsafe_call(__func__, [&](Context& context) {
    if (memory == nullptr || bytes == 0 || flags > 7) return kInvalidValue;
    const SharedAllocation made = allocate_shared(context, MemorySort::kPinned, bytes);
    if (made != nullptr) made->flags = flags;
    return hand_out(made, memory);
  });
}

int cuMemAllocHost_v2(void** memory, size_t bytes) {
  return unsafe_call(__func__, [&](Context& context) {
    if (memory == nullptr || bytes == 0) return kInvalidValue;
    return hand_out(allocate_shared(context, MemorySort::kPinned, bytes), memory);
  });
}

int cuMemFreeHost(void* memory) {
  return unsafe_call(__func__, [&](Context&) {
    return give_back(address_of(memory), {MemorySort::kPinned}, kInvalidValue);
  });
}

int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  return unsafe_call(__func__, [&](Context& context) {
    if (memory == nullptr || bytes == 0 || flags > 0xf) return kInvalidValue;
    const SharedAllocation there = state().memory.find(address_of(memory));
    if (there != nullptr && !there->is_host()) return kInvalidValue;
    if (!is_mapped(memory, bytes)) return kInvalidValue;
    auto made = std::make_shared<Allocation>();
    made->sort = MemorySort::kRegistered;
    made->begin = address_of(memory);
    made->own = static_cast<std::byte*>(memory);
    made->bytes = bytes;
    made->context = &context;
    made->flags = flags;
    made->buffer = next_buffer();
    return state().memory.add(made) ? kSuccess : kHostMemoryAlreadyRegistered;
  });
}

int cuMemHostUnregister(void* memory) {
  return unsafe_call(__func__, [&](Context&) {
    return give_back(address_of(memory), {MemorySort::kRegistered}, kHostMemoryNotRegistered);
  });
}

int cuMemHostGetDevicePointer_v2(CuAddress* address, void* memory, unsigned flags) {
  return call_in_context(__func__, [&](Context&) {
    const SharedAllocation found = state().memory.find(address_of(memory));
    if (address == nullptr || flags != 0 || found == nullptr || !found->is_host())
      return kInvalidValue;
    *address = address_of(memory);
    return kSuccess;
  });
}

int cuMemHostGetFlags(unsigned* flags, void* memory) {
  return call_in_context(__func__, [&](Context&) {
    const SharedAllocation found = state().memory.find(address_of(memory));
    if (flags == nullptr || found == nullptr || !found->is_host()) return kInvalidValue;
    *flags = found->flags;
    return kSuccess;
  });
}

int cuMemGetAddressRange_v2(CuAddress* begin, size_t* bytes, CuAddress address) {
  return call_in_context(__func__, [&](Context&) {
    const SharedAllocation found = state().memory.find(address);
    if (found == nullptr) return kNotFound;
    if (begin != nullptr) *begin = found->begin;
    if (bytes != nullptr) *bytes = found->bytes;
    return kSuccess;
  });
}

int cuPointerGetAttribute(void* value, int attribute, CuAddress address) {
  return call(__func__, [&] {
    const SharedAllocation found = state().memory.find(address);
    if (value == nullptr || found == nullptr) return kInvalidValue;
    return tell(*found, attribute, address, value);
  });
}

// Memory that it does not know is no error here.
int cuPointerGetAttributes(unsigned count, int* attributes, void** values, CuAddress address) {
  return call(__func__, [&] {
    if (count == 0 || attributes == nullptr || values == nullptr) return kInvalidValue;
    const SharedAllocation found = state().memory.find(address);
    for (unsigned i = 0; i < count; ++i) {
      if (values[i] == nullptr || tell_of_nothing(attributes[i], values[i]) != kSuccess)
        return kInvalidValue;
      if (found != nullptr) (void)tell(*found, attributes[i], address, values[i]);
    }
    return kSuccess;
  });
}
