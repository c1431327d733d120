// Memory that callers map by themselves, and pass to other processes by descriptors.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>

#include "tests/cuda/driver/mapped.h"
#include "tests/cuda/driver/state.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

constexpr int kPinned = 1;          // CU_MEM_ALLOCATION_TYPE_PINNED
constexpr int kOnDevice = 1;        // CU_MEM_LOCATION_TYPE_DEVICE
constexpr int kFileDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

bool is_device(const CuLocation& location) {
  return location.type == kOnDevice && location.id >= 0 &&
         static_cast<size_t>(location.id) < state().contexts.size();
}

int check(const CuAllocationProperties* properties) {
  if (properties == nullptr || properties->type != kPinned) return kInvalidValue;
  if (!is_device(properties->location)) return kInvalidDevice;
  return (properties->handle_types & ~kFileDescriptor) == 0 ? kSuccess : kNotSupported;
}

}  // namespace

int cuMemGetAllocationGranularity(size_t* bytes, const CuAllocationProperties* properties,
                                  int option) {
  return call(__func__, [&] {
    if (bytes == nullptr || option < 0 || option > 1) return kInvalidValue;
    const int checked = check(properties);
    if (checked == kSuccess) *bytes = kGranularity;
    return checked;
  });
}

int cuMemCreate(CuMemHandle* handle, size_t bytes, const CuAllocationProperties* properties,
                unsigned long long flags) {
  return call(__func__, [&] {
    if (handle == nullptr || bytes == 0 || bytes % kGranularity != 0 || flags != 0)
      return kInvalidValue;
    if (const int checked = check(properties); checked != kSuccess) return checked;
    const auto made = Physical::create(bytes, properties->location.id, properties->handle_types);
    if (const int held = mapped_memory().hold(made); held != kSuccess) return held;
    *handle = made->number();
    return kSuccess;
  });
}

int cuMemRelease(CuMemHandle handle) {
  return call(__func__, [&] { return mapped_memory().release(handle); });
}

int cuMemRetainAllocationHandle(CuMemHandle* handle, void* address) {
  return call(__func__, [&] {
    const SharedAllocation found = state().memory.find(address_of(address));
    if (handle == nullptr || found == nullptr || found->physical == nullptr) return kInvalidValue;
    *handle = found->physical->number();
    return mapped_memory().hold(found->physical);
  });
}

int cuMemGetAllocationPropertiesFromHandle(CuAllocationProperties* properties, CuMemHandle handle) {
  return call(__func__, [&] {
    const auto found = mapped_memory().find(handle);
    if (properties == nullptr || found == nullptr) return kInvalidValue;
    *properties = {};
    properties->type = kPinned;
    properties->handle_types = found->handle_types();
    properties->location = {.type = kOnDevice, .id = found->device()};
    return kSuccess;
  });
}

int cuMemAddressReserve(CuAddress* address, size_t bytes, size_t alignment, CuAddress wished,
                        unsigned long long flags) {
  (void)wished;  // a wish only
  return call(__func__, [&] {
    const bool power_of_two = (alignment & (alignment - 1)) == 0;
    if (address == nullptr || flags != 0 || !power_of_two || alignment > kGranularity)
      return kInvalidValue;
    return mapped_memory().reserve(bytes, address);
  });
}

int cuMemAddressFree(CuAddress address, size_t bytes) {
  return call(__func__, [&] { return mapped_memory().free(address, bytes); });
}

int cuMemMap(CuAddress address, size_t bytes, size_t offset, CuMemHandle handle,
             unsigned long long flags) {
  return call(__func__, [&] {
    if (offset != 0 || flags != 0) return kInvalidValue;
    return mapped_memory().map(address, bytes, handle);
  });
}

int cuMemUnmap(CuAddress address, size_t bytes) {
  return call(__func__, [&] { return mapped_memory().unmap(address, bytes); });
}

int cuMemSetAccess(CuAddress address, size_t bytes, const CuAccess* accesses, size_t count) {
  return call(__func__, [&] {
    if (accesses == nullptr || count == 0) return kInvalidValue;
    for (size_t i = 0; i < count; ++i)
      if (!is_device(accesses[i].location) ||
          (accesses[i].flags != 0 && accesses[i].flags != 1 && accesses[i].flags != 3))
        return kInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      const int set = mapped_memory().set_access(address, bytes, accesses[i].location.id,
                                                 static_cast<unsigned>(accesses[i].flags));
      if (set != kSuccess) return set;
    }
    return kSuccess;
  });
}

int cuMemExportToShareableHandle(void* shareable, CuMemHandle handle, int type,
                                 unsigned long long flags) {
  return call(__func__, [&] {
    const auto found = mapped_memory().find(handle);
    if (shareable == nullptr || flags != 0 || found == nullptr) return kInvalidValue;
    if (type != kFileDescriptor || (found->handle_types() & type) == 0) return kNotSupported;
    const int copy = ::fcntl(found->file().get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return kOperatingSystem;
    *static_cast<int*>(shareable) = copy;
    return kSuccess;
  });
}

int cuMemImportFromShareableHandle(CuMemHandle* handle, void* shareable, int type) {
  return call(__func__, [&] {
    if (handle == nullptr || type != kFileDescriptor) return kInvalidValue;
    const auto made = Physical::import(static_cast<int>(address_of(shareable)));
    if (made == nullptr || static_cast<size_t>(made->device()) >= state().contexts.size())
      return kInvalidValue;
    *handle = made->number();
    return mapped_memory().hold(made);
  });
}
