// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/pointer_place.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

constexpr int kMemoryType = 2, kBufferId = 7, kIsManaged = 8, kOrdinal = 9;  // CUpointer_attribute
constexpr unsigned kUnknown = 0, kDevice = 2;                                // CUmemorytype

// The newest of those whose numbers have the same remainder. A word holds all that is known of one:
// the buffer's number, whether it is on a device, and the ordinal plus one.
class KnownBuffers {
 public:
  std::optional<PointerPlace> find(uint64_t buffer) const {
    const uint64_t word = words_[buffer % kRoom].load(std::memory_order_relaxed);
    if (word == 0 || word >> kNumberShift != buffer) return std::nullopt;
    return PointerPlace{(word & kOnDevice) != 0, static_cast<int>(word & kOrdinals) - 1};
  }
  void keep(uint64_t buffer, const PointerPlace& place) {
    const auto ordinal = static_cast<uint64_t>(place.ordinal) + 1;  // 0: none's
    if (buffer == 0 || buffer >> (64 - kNumberShift) != 0 || ordinal > kOrdinals) return;
    words_[buffer % kRoom].store(
        buffer << kNumberShift | (place.on_device ? kOnDevice : 0) | ordinal,
        std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kRoom = 256;
  static constexpr int kNumberShift = 16;
  static constexpr uint64_t kOnDevice = 0x8000, kOrdinals = 0x7fff;

  std::array<std::atomic<uint64_t>, kRoom> words_{};
};

constinit KnownBuffers known_buffers;

struct Found {
  unsigned type = kUnknown;
  unsigned long long buffer = 0;  // none
  int error = kCudaSuccess;
};

// False: it is not known, and `value` may have changed.
bool ask_one(const CudaFunctions& cuda, void* value, int attribute,
             CudaFunctions::Address address) {
  return cuda.pointer_attribute != nullptr &&
         cuda.pointer_attribute(value, attribute, address) == kCudaSuccess;
}

// By these the driver says that memory is not its own: it has none yet, or none any more.
bool says_no(int error) {
  return error == kCudaInvalidValue || error == kCudaNotInitialized ||
         error == kCudaDeinitialized || error == kCudaInvalidContext;
}

int ask(const CudaFunctions& cuda, CudaFunctions::Address address, Found& found) {
  std::array<int, 2> attributes{kMemoryType, kBufferId};
  std::array<void*, 2> values{&found.type, &found.buffer};
  if (cuda.pointer_attributes != nullptr)
    return cuda.pointer_attributes(attributes.size(), attributes.data(), values.data(), address);
  if (cuda.pointer_attribute != nullptr)
    return cuda.pointer_attribute(&found.type, kMemoryType, address);
  return kCudaInvalidValue;
}

Found ask(const CudaFunctions& cuda, CudaFunctions::Address address) {
  Found found;
  const int error = ask(cuda, address, found);
  if (error == kCudaSuccess) return found;
  return says_no(error) ? Found{} : Found{.error = error};
}

// Where the kernel forbids even this, everything is taken to be readable.
bool can_be_read(const void* address) {
  char byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{const_cast<void*>(address), 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 || errno != EFAULT;
}

}  // namespace

PointerPlace pointer_place(const CudaFunctions& cuda, const void* address) {
  const auto pointer = cuda_address(address);
  const auto [type, buffer, error] = ask(cuda, pointer);
  if (error != kCudaSuccess) return {.on_device = !can_be_read(address), .error = error};
  if (type == kUnknown) return {};
  if (const auto known = known_buffers.find(buffer)) return *known;
  unsigned managed = 0;
  PointerPlace place;
  if (!ask_one(cuda, &managed, kIsManaged, pointer)) managed = 0;
  if (!ask_one(cuda, &place.ordinal, kOrdinal, pointer)) place.ordinal = -1;
  place.on_device = type == kDevice && managed == 0;
  known_buffers.keep(buffer, place);
  return place;
}

}  // namespace banyan
