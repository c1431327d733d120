// SPDX-License-Identifier: Apache-2.0

#include "bench/info/doctor/doctor_borrower.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

namespace banyan {

namespace {

constexpr size_t kLentBytes = size_t{2} << 20;  // as the driver gives memory to others
constexpr int kPatienceMs = 20'000;    // a context takes a second where there are many GPUs
constexpr unsigned kReachesPeers = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// The first GPU's context, made current; kCudaSuccess, or what the driver said.
int enter_first_gpu(const CudaFunctions& cuda, CudaFunctions::Device* device) {
  CudaFunctions::Handle context = nullptr;
  if (const int result = cuda.device(device, 0); result != kCudaSuccess) return result;
  if (const int result = cuda.retain_context(&context, *device); result != kCudaSuccess)
    return result;
  return cuda.set_context(context);
}

bool has_what_is_needed(const CudaFunctions& cuda) {
  return cuda.init != nullptr && cuda.device != nullptr && cuda.retain_context != nullptr &&
         cuda.release_context != nullptr && cuda.set_context != nullptr &&
         cuda.allocate != nullptr && cuda.free != nullptr && cuda.lend != nullptr &&
         cuda.borrow != nullptr && cuda.return_borrowed != nullptr;
}

// In the child. What it cannot even begin is not the matter.
int borrow(const CudaIpcHandle& handle) {
  const std::optional<CudaFunctions> cuda = open_cuda_driver();
  CudaFunctions::Device device = 0;
  if (!cuda || !has_what_is_needed(*cuda) || cuda->init(0) != kCudaSuccess ||
      enter_first_gpu(*cuda, &device) != kCudaSuccess)
    return kCudaSuccess;
  CudaFunctions::Address address = 0;
  const int result = cuda->borrow(&address, handle, kReachesPeers);
  if (result == kCudaSuccess) (void)cuda->return_borrowed(address);
  return result;
}

template <typename T>
bool read_whole(int from, T* value) {
  return ::read(from, value, sizeof *value) == static_cast<ssize_t>(sizeof *value);
}

template <typename T>
bool write_whole(int to, const T& value) {
  return ::write(to, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

[[noreturn]] void be_child(int handles, int answers) {
  CudaIpcHandle handle{};
  if (read_whole(handles, &handle)) (void)write_whole(answers, borrow(handle));
  ::_exit(0);
}

}  // namespace

MemoryBorrower::MemoryBorrower() {
  std::array<int, 2> to_child{}, from_child{};
  if (::pipe2(to_child.data(), O_CLOEXEC) != 0) return;
  Descriptor child_reads(to_child[0]);
  Descriptor we_write(to_child[1]);
  if (::pipe2(from_child.data(), O_CLOEXEC) != 0) return;
  Descriptor we_read(from_child[0]);
  Descriptor child_writes(from_child[1]);
  child_ = ::fork();
  if (child_ == 0) {
    we_write.close();
    we_read.close();
    be_child(child_reads.get(), child_writes.get());
  }
  if (child_ < 0) return;
  handles_ = std::move(we_write);
  answers_ = std::move(we_read);
}

MemoryBorrower::~MemoryBorrower() {
  if (child_ < 0) return;
  handles_.close();
  pollfd ended{answers_.get(), POLLIN, 0};
  if (::poll(&ended, 1, kPatienceMs) == 0) ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string MemoryBorrower::why_not(const CudaFunctions& cuda) {
  CudaFunctions::Device device = 0;
  if (child_ < 0 || !has_what_is_needed(cuda) || enter_first_gpu(cuda, &device) != kCudaSuccess)
    return {};
  const auto text_of = [&](std::string_view call, int result) {
    const char* name = nullptr;
    const bool named = cuda.error_name != nullptr && cuda.error_name(result, &name) == kCudaSuccess;
    return named && name != nullptr ? fmt::format("{}: {}", call, name)
                                    : fmt::format("{}: {}", call, result);
  };
  std::string why;
  CudaFunctions::Address address = 0;
  if (cuda.allocate(&address, kLentBytes) == kCudaSuccess) {
    CudaIpcHandle handle{};
    int answer = kCudaSuccess;
    pollfd answered{answers_.get(), POLLIN, 0};
    if (const int lent = cuda.lend(&handle, address); lent != kCudaSuccess)
      why = text_of("cuIpcGetMemHandle", lent);
    else if (write_whole(handles_.get(), handle) && ::poll(&answered, 1, kPatienceMs) == 1 &&
             read_whole(answers_.get(), &answer) && answer != kCudaSuccess)
      why = text_of("cuIpcOpenMemHandle", answer);
    (void)cuda.free(address);
  }
  (void)cuda.set_context(nullptr);
  (void)cuda.release_context(device);
  return why;
}

}  // namespace banyan
