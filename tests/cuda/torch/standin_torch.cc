// GPUs for a torch without CUDA: its streams, events and memory are those of the stand-in for the
// driver, and few operations of tensors work. Programs of Python import it.
// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/cuda_driver.h"

namespace banyan::test::standin_torch {
namespace {

using Handle = CudaFunctions::Handle;

void check(int result, const char* what) {
  TORCH_CHECK(result == kCudaSuccess, what, ": ", result);
}

// The driver that STANDIN_CUDA names, with the primary contexts of its devices.
class Driver {
 public:
  static constexpr int kMostDevices = 8;

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }
  const CudaFunctions* operator->() const { return &cuda_; }
  int devices() const { return devices_; }
  void enter(int device) const {
    check(cuda_.set_context(contexts_[static_cast<size_t>(device)]), "cuCtxSetCurrent");
  }

 private:
  Driver() {
    const char* path =
        std::getenv("STANDIN_CUDA");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    TORCH_CHECK(path != nullptr, "STANDIN_CUDA names the driver");
    void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    TORCH_CHECK(library != nullptr, dlerror());
    cuda_ = cuda_functions(library);
    check(cuda_.init(0), "cuInit");
    check(cuda_.device_count(&devices_), "cuDeviceGetCount");
    for (int device = 0; device < devices_ && device < kMostDevices; ++device)
      check(cuda_.retain_context(&contexts_[static_cast<size_t>(device)], device), "retain");
  }

  CudaFunctions cuda_;
  int devices_ = 0;
  std::array<Handle, kMostDevices> contexts_{};
};

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, Driver::kMostDevices> current_streams{};

// A stream's number is its handle; 0 is the default stream.
Handle handle_of(c10::StreamId stream) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): torch has numbers for streams
  return reinterpret_cast<Handle>(stream);
}

c10::StreamId make_stream(c10::DeviceIndex device) {
  constexpr unsigned kNonBlocking = 1;
  Driver::get().enter(device);
  Handle made = nullptr;
  check(Driver::get()->create_stream(&made, kNonBlocking), "cuStreamCreate");
  Driver::get().enter(current_device);
  return reinterpret_cast<c10::StreamId>(made);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;
  Guard() = default;
  explicit Guard(c10::DeviceType /*type*/) {}
  c10::DeviceType type() const override { return static_type; }
  c10::Device getDevice() const override { return {static_type, current_device}; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(c10::Device device) const override {
    Driver::get().enter(device.index());
    current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Driver::get().devices());
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device,
                       current_streams.at(static_cast<size_t>(device.index())));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, make_stream(device.index()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    current_streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  void* getStreamNativeHandle(c10::Stream stream) const override { return handle_of(stream.id()); }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    int capturing = 0;
    check(Driver::get()->is_capturing(handle_of(stream.id()), &capturing), "cuStreamIsCapturing");
    return capturing != 0;
  }
  bool queryStream(const c10::Stream& stream) const override {
    const int state = Driver::get()->query_stream(handle_of(stream.id()));
    if (state != kCudaNotReady) check(state, "cuStreamQuery");
    return state == kCudaSuccess;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(Driver::get()->synchronize_stream(handle_of(stream.id())), "cuStreamSynchronize");
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    Driver::get().enter(stream.device_index());
    if (*event == nullptr) check(Driver::get()->create_event(event, 2), "cuEventCreate");
    check(Driver::get()->record_event(*event, handle_of(stream.id())), "cuEventRecord");
    Driver::get().enter(current_device);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    check(Driver::get()->wait_event(handle_of(stream.id()), event, 0), "cuStreamWaitEvent");
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    Driver::get().enter(current_device);  // the thread may be new, which the runtime does not mind
    const int state = Driver::get()->query_event(event);
    if (state != kCudaNotReady) check(state, "cuEventQuery");
    return state == kCudaSuccess;
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event != nullptr) (void)Driver::get()->destroy_event(event);
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

CudaFunctions::Address address_of(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

Handle current_stream() {
  return handle_of(current_streams.at(static_cast<size_t>(current_device)));
}

// It stays to the end of the process.
void* pinned(size_t bytes) {
  void* memory = nullptr;
  check(Driver::get()->allocate_host(&memory, bytes, 0), "cuMemHostAlloc");
  return memory;
}

// The driver waits for all streams to free memory, which torch's allocator therefore keeps. This
// one keeps it, too, and never gives it again.
at::Tensor allocate(c10::IntArrayRef sizes, c10::ScalarType type) {
  Driver::get().enter(current_device);
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  CudaFunctions::Address memory = 0;
  check(Driver::get()->allocate(&memory, bytes == 0 ? 1 : bytes), "cuMemAlloc");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
  void* begin = reinterpret_cast<void*>(memory);
  const c10::Device device(c10::DeviceType::CUDA, current_device);
  return at::for_blob(begin, sizes)
      .deleter([](void* /*of*/) {})
      .options(at::TensorOptions().dtype(type).device(device))
      .target_device(device)
      .make_tensor();
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                 std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> /*format*/) {
  return allocate(sizes, type.value_or(at::kFloat));
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

// It copies dense tensors of one type, on the current stream.
at::Tensor& copy(at::Tensor& self, const at::Tensor& from, bool /*non_blocking*/) {
  TORCH_CHECK(self.is_contiguous() && from.is_contiguous() && self.dtype() == from.dtype() &&
                  self.numel() == from.numel(),
              "the stand-in copies dense tensors of one type");
  const c10::DeviceGuard at((self.is_cuda() ? self : from).device());
  check(Driver::get()->copy(address_of(self.data_ptr()), address_of(from.data_ptr()), self.nbytes(),
                            current_stream()),
        "cuMemcpyAsync");
  if (self.is_cpu() || from.is_cpu())
    check(Driver::get()->synchronize_stream(current_stream()), "cuStreamSynchronize");
  return self;
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("view", at::native::view);
  library.impl("as_strided", as_strided);
  library.impl("copy_", copy);
}

// Copies from pinned memory are enqueued; from other memory the driver takes them at once, for
// which it waits for the stream. The small ones have room in an arena, to the end of the process.
void write(const at::Tensor& to, const at::Tensor& from) {
  static void* const arena = pinned(size_t{4} << 20);
  static size_t used = 0;
  constexpr size_t kSmall = 8192;
  const void* source = from.data_ptr();
  if (from.nbytes() <= kSmall) {
    TORCH_CHECK(used + kSmall <= size_t{4} << 20, "the arena is full");
    void* kept = static_cast<char*>(arena) + used;
    used += kSmall;
    source = std::memcpy(kept, source, from.nbytes());
  }
  check(
      Driver::get()->to_device(address_of(to.data_ptr()), source, from.nbytes(), current_stream()),
      "cuMemcpyHtoDAsync");
}

at::Tensor read(const at::Tensor& from) {
  at::Tensor host = at::empty(from.sizes(), from.options().device(at::kCPU));
  check(Driver::get()->to_host(host.data_ptr(), address_of(from.data_ptr()), from.nbytes(),
                               current_stream()),
        "cuMemcpyDtoHAsync");
  check(Driver::get()->synchronize_stream(current_stream()), "cuStreamSynchronize");
  return host;
}

// Holds the stream that is current when it is closed back until it is opened, once.
class Gate {
 public:
  Gate() : word_(static_cast<uint32_t*>(pinned(sizeof(uint32_t)))) { *word_ = 0; }
  void close() {
    check(Driver::get()->wait_value(current_stream(), address_of(word_), 1, 0), "wait");
  }
  void open() { std::atomic_ref(*word_).store(1); }

 private:
  uint32_t* word_;
};

// A function of the driver's that the library has no use for.
template <typename Function>
Function* function_of(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  TORCH_CHECK(found != nullptr, "the driver has no ", name);
  return found;
}

void begin_capture() {
  constexpr int kThreadLocal = 1;
  check(function_of<int(void*, int)>("cuStreamBeginCapture_v2")(current_stream(), kThreadLocal),
        "cuStreamBeginCapture");
}

// It raises where the capture has been made invalid.
void end_capture() {
  void* graph = nullptr;
  check(function_of<int(void*, void**)>("cuStreamEndCapture")(current_stream(), &graph),
        "cuStreamEndCapture");
  check(function_of<int(void*)>("cuGraphDestroy")(graph), "cuGraphDestroy");
}

PYBIND11_MODULE(standin_torch, module) {
  Driver::get().enter(0);
  module.def("empty", [](const std::vector<int64_t>& sizes, const at::Tensor& like) {
    return allocate(sizes, like.scalar_type());
  });
  module.def("write", write);
  module.def("read", read, pybind11::call_guard<pybind11::gil_scoped_release>());
  module.def("new_stream", [] {
    current_streams.at(static_cast<size_t>(current_device)) = make_stream(current_device);
  });
  module.def("use_stream", [](uintptr_t stream) {
    current_streams.at(static_cast<size_t>(current_device)) = static_cast<c10::StreamId>(stream);
  });
  module.def("stream", [] { return reinterpret_cast<uintptr_t>(current_stream()); });
  module.def("begin_capture", begin_capture);
  module.def("end_capture", end_capture);
  module.def("is_idle", [] { return Guard().queryStream(Guard().getStream(Guard().getDevice())); });
  pybind11::class_<Gate>(module, "Gate")
      .def(pybind11::init<>())
      .def("close", &Gate::close)
      .def("open", &Gate::open);
}

}  // namespace
}  // namespace banyan::test::standin_torch
