// The tests ask a real driver for memory of every kind through this. It opens the driver at run
// time, as the library does, so the tests are built where there is neither CUDA nor a GPU (CUDA
// Driver API reference, 12).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace banyan::test {

// Says why no test can have a GPU here; empty: there is one. A child asks, so that this process has
// not loaded the driver, and may fork. Call it before there are threads.
std::string why_no_gpu();

// Memory that is given back when this ends. Null: the driver has refused it.
class Held {
 public:
  Held() = default;
  Held(void* memory, std::function<void()> release)
      : memory_(static_cast<std::byte*>(memory)), release_(std::move(release)) {}
  Held(Held&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), release_(std::move(other.release_)) {
    other.release_ = nullptr;
  }
  Held& operator=(Held&&) = delete;
  ~Held() {
    if (release_) release_();
  }

  std::byte* memory() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::function<void()> release_;
};

struct IpcHandle {  // CUipcMemHandle
  char bytes[64];
};

// The first device with its primary context, which is current in the thread that has made this.
// Memory that it gives ends before it.
class Gpu {
 public:
  Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // The call that the driver has refused last, and what it said; empty: none.
  const std::string& refused() const { return refused_; }
  // By its number in CUdevice_attribute; 0 where the driver does not say.
  int attribute(int number) const;
  bool has_managed_memory() const { return attribute(83) != 0; }
  bool maps_memory() const { return attribute(102) != 0; }  // cuMemCreate() and its kin
  bool has_memory_pools() const { return attribute(115) != 0; }

  // Memory of the device: cuMemAlloc, a pool, cuMemCreate and cuMemMap, another process.
  Held plain(size_t bytes);
  Held pooled(size_t bytes);
  Held mapped(size_t bytes);
  Held borrowed(const IpcHandle& handle);
  IpcHandle lend(const Held& held);
  // Copies to it and from it.
  void write(std::byte* memory, const void* from, size_t bytes);
  void read(void* to, const std::byte* memory, size_t bytes);
  // Memory of the host that the device can use.
  Held pinned(size_t bytes);
  Held managed(size_t bytes);
  // Makes memory of the caller such; it stays the caller's.
  Held registered(void* memory, size_t bytes);

 private:
  using Address = unsigned long long;  // CUdeviceptr
  using Stream = void*;
  struct Location {
    int type = 1;  // a device
    int id = 0;
  };
  struct Allocation {  // CUmemAllocationProp
    int type = 1;      // pinned
    int handles = 0;   // nobody else maps it
    Location location{};
    void* windows = nullptr;
    unsigned char flags[8] = {};
  };
  struct Access {  // CUmemAccessDesc
    Location location{};
    int flags = 3;  // reads and writes
  };
  struct Calls {  // each returns CUresult
    int (*init)(unsigned) = nullptr;
    int (*device)(int*, int) = nullptr;
    int (*attribute)(int*, int, int) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*set_current)(void*) = nullptr;
    int (*error_name)(int, const char**) = nullptr;
    int (*alloc)(Address*, size_t) = nullptr;
    int (*free)(Address) = nullptr;
    int (*alloc_async)(Address*, size_t, Stream) = nullptr;
    int (*free_async)(Address, Stream) = nullptr;
    int (*synchronize)() = nullptr;
    int (*granularity)(size_t*, const Allocation*, int) = nullptr;
    int (*create)(Address*, size_t, const Allocation*, unsigned long long) = nullptr;
    int (*release)(Address) = nullptr;
    int (*reserve)(Address*, size_t, size_t, Address, unsigned long long) = nullptr;
    int (*free_reserved)(Address, size_t) = nullptr;
    int (*map)(Address, size_t, size_t, Address, unsigned long long) = nullptr;
    int (*unmap)(Address, size_t) = nullptr;
    int (*set_access)(Address, size_t, const Access*, size_t) = nullptr;
    int (*lend)(IpcHandle*, Address) = nullptr;
    int (*borrow)(Address*, IpcHandle, unsigned) = nullptr;
    int (*give_back)(Address) = nullptr;
    int (*to_device)(Address, const void*, size_t) = nullptr;
    int (*to_host)(void*, Address, size_t) = nullptr;
    int (*alloc_host)(void**, size_t) = nullptr;
    int (*free_host)(void*) = nullptr;
    int (*register_host)(void*, size_t, unsigned) = nullptr;
    int (*unregister_host)(void*) = nullptr;
    int (*alloc_managed)(Address*, size_t, unsigned) = nullptr;
  };

  bool ok(int result, const char* call);
  static Held held(Address address, int (*free)(Address));

  Calls calls_;
  int device_ = 0;
  std::string refused_;
};

}  // namespace banyan::test
