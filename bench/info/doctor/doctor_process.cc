// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "bench/info/doctor/doctor.h"
#include "bench/info/doctor/doctor_borrower.h"
#include "compression/cuda/module.h"
#include "src/base/cuda_driver.h"
#include "src/base/descriptor.h"
#include "src/base/sealed_memory.h"
#include "src/bootstrap/rendezvous_socket.h"

namespace banyan {

namespace {

std::string text_of_error(std::string_view call, int error) {
  return fmt::format("{}: {}", call, std::generic_category().message(error));
}

// Tries as one rank reads another: a child reads us, which is what is forbidden first (Yama lets
// parents read their children).
std::string why_nobody_reads() {
  const uint64_t secret = 0x62616e79616e;
  const pid_t reader = ::fork();
  if (reader < 0) return text_of_error("fork", errno);
  if (reader == 0) {
    uint64_t read = 0;
    const iovec here{&read, sizeof(read)};
    // The kernel writes nothing there.
    const iovec there{const_cast<uint64_t*>(&secret), sizeof(secret)};
    const ssize_t got = ::process_vm_readv(::getppid(), &here, 1, &there, 1, 0);
    ::_exit(got == sizeof(read) && read == secret ? 0 : got < 0 ? errno : EIO);
  }
  int status = 0;
  while (::waitpid(reader, &status, 0) < 0)
    if (errno != EINTR) return text_of_error("waitpid", errno);
  if (!WIFEXITED(status)) return "process_vm_readv: the process that tried was killed";
  return WEXITSTATUS(status) == 0 ? std::string()
                                  : text_of_error("process_vm_readv", WEXITSTATUS(status));
}

// Tries it as ranks of one host meet.
std::string why_no_loopback() {
  Address address;
  address.ip = {127, 0, 0, 1};
  const auto listener = listen_at(address, {});
  if (!listener.ok()) return std::string(listener.status().message());
  const auto connection = begin_connect(listener->address);
  return connection.ok() ? std::string() : std::string(connection.status().message());
}

std::string why_not_opened(const char* name) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::format("{} cannot be opened", name);
  ::dlclose(library);
  return {};
}

std::string text_of_result(const CudaFunctions& cuda, std::string_view call, int result) {
  const char* name = nullptr;
  if (cuda.error_name == nullptr || cuda.error_name(result, &name) != kCudaSuccess) name = nullptr;
  return name == nullptr ? fmt::format("{}: {}", call, result) : fmt::format("{}: {}", call, name);
}

std::string why_no_gpu(const CudaFunctions& cuda) {
  if (cuda.init == nullptr || cuda.device_count == nullptr)
    return "libcuda.so.1 has no cuInit, or no cuDeviceGetCount";
  if (const int result = cuda.init(0); result != kCudaSuccess)
    return text_of_result(cuda, "cuInit", result);
  int count = 0;
  if (const int result = cuda.device_count(&count); result != kCudaSuccess)
    return text_of_result(cuda, "cuDeviceGetCount", result);
  return count > 0 ? std::string() : "cuDeviceGetCount: there are 0";
}

// Looks at the first GPU. Without a context there is nothing to be said.
std::string why_no_kernels(const CudaFunctions& cuda) {
  CudaFunctions::Device device = 0;
  CudaFunctions::Handle context = nullptr;
  if (cuda_image().fatbin == nullptr || cuda.device == nullptr || cuda.retain_context == nullptr ||
      cuda.release_context == nullptr || cuda.set_context == nullptr ||
      cuda.device(&device, 0) != kCudaSuccess ||
      cuda.retain_context(&context, device) != kCudaSuccess)
    return {};
  std::string why;
  if (cuda.set_context(context) == kCudaSuccess) {
    const Status loaded = CudaModule::load(cuda).status();
    if (loaded.code() == Code::kUnsupported) why = loaded.message();
    (void)cuda.set_context(nullptr);
  }
  (void)cuda.release_context(device);
  return why;
}

}  // namespace

ProcessFacts facts_of_process() {
  ProcessFacts facts;
  MemoryBorrower borrower;
  constexpr double kPatience = 4;  // seconds
  const auto memory = create_memory(static_cast<size_t>(::sysconf(_SC_PAGESIZE)), Pages::kReserved,
                                    deadline_after(kPatience));
  if (!memory.ok()) facts.no_shared_memory = memory.status().message();
  facts.interrupted = memory.status().code() == Code::kTimeout;
  facts.no_reading = why_nobody_reads();
  facts.no_loopback = why_no_loopback();
  facts.no_ucx = why_not_opened("libucp.so.0");
  facts.no_verbs = why_not_opened("libibverbs.so.1");
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.locked_bytes_most = limit.rlim_cur;
  if (const std::optional<CudaFunctions> cuda = open_cuda_driver()) {
    facts.no_gpu = why_no_gpu(*cuda);
    if (facts.no_gpu.empty()) facts.no_kernels = why_no_kernels(*cuda);
    if (facts.no_gpu.empty()) {
      const MemoryBorrower::Refusals why = borrower.why_not(*cuda);
      facts.no_handles = why.by_handle;
      facts.no_descriptors = why.by_descriptor;
    }
  }
  return facts;
}

}  // namespace banyan
