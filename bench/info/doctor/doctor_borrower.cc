// SPDX-License-Identifier: Apache-2.0

#include "bench/info/doctor/doctor_borrower.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/passed_descriptor.h"

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

bool has_descriptors(const CudaFunctions& cuda) {
  return cuda.create_memory != nullptr && cuda.release_memory != nullptr &&
         cuda.reserve != nullptr && cuda.map != nullptr && cuda.set_access != nullptr &&
         cuda.export_memory != nullptr && cuda.import_memory != nullptr;
}

// The child says which call was refused, and how. kCudaSuccess also where it cannot even begin,
// which is not the matter.
constexpr std::array<std::string_view, 5> kCalls{
    "cuIpcOpenMemHandle", "cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap",
    "cuMemSetAccess"};
struct Reply {
  uint32_t call = 0;  // in kCalls
  int result = kCudaSuccess;
};

struct Question {
  CudaIpcHandle handle{};
  bool by_descriptor = false;  // which comes along
};

Reply borrow(const CudaFunctions& cuda, const CudaIpcHandle& handle) {
  CudaFunctions::Address address = 0;
  const int result = cuda.borrow(&address, handle, kReachesPeers);
  if (result == kCudaSuccess) (void)cuda.return_borrowed(address);
  return {0, result};
}

// What it maps ends with the child.
Reply import(const CudaFunctions& cuda, const Descriptor& descriptor) {
  CudaFunctions::Memory memory = 0;
  CudaFunctions::Address address = 0;
  const CudaAccess access;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has descriptors in clothes of pointers
  auto* number = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get()));
  if (const int result = cuda.import_memory(&memory, number, kCudaFileDescriptor);
      result != kCudaSuccess)
    return {1, result};
  if (const int result = cuda.reserve(&address, kLentBytes, 0, 0, 0); result != kCudaSuccess)
    return {2, result};
  if (const int result = cuda.map(address, kLentBytes, 0, memory, 0); result != kCudaSuccess)
    return {3, result};
  return {4, cuda.set_access(address, kLentBytes, &access, 1)};
}

// `along` goes with it; null: nothing does.
bool send_question(int to, const Question& question, const Descriptor* along) {
  Question said = question;
  PassedDescriptor passed;
  iovec data{&said, sizeof said};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (along != nullptr) passed.attach(&message, *along);
  return ::sendmsg(to, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof said);
}

bool receive_question(int from, Question* question, Descriptor* along) {
  PassedDescriptor passed;
  iovec data{question, sizeof *question};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  passed.make_room(&message);
  if (::recvmsg(from, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof *question))
    return false;
  *along = PassedDescriptor::detach(&message);
  return true;
}

[[noreturn]] void be_child(int socket) {
  std::optional<CudaFunctions> cuda;
  bool works = false;
  Question question;
  Descriptor passed;
  while (receive_question(socket, &question, &passed)) {
    if (!cuda) {
      CudaFunctions::Device device = 0;
      cuda = open_cuda_driver();
      works = cuda && has_what_is_needed(*cuda) && cuda->init(0) == kCudaSuccess &&
              enter_first_gpu(*cuda, &device) == kCudaSuccess;
      if (!cuda) cuda.emplace();
    }
    Reply reply;
    if (works && !question.by_descriptor) reply = borrow(*cuda, question.handle);
    if (works && question.by_descriptor && has_descriptors(*cuda) && passed.valid())
      reply = import(*cuda, passed);
    if (::send(socket, &reply, sizeof reply, MSG_NOSIGNAL) != ssize_t{sizeof reply}) break;
  }
  ::_exit(0);
}

std::string said_by(const CudaFunctions& cuda, std::string_view call, int result) {
  const char* name = nullptr;
  const bool named = cuda.error_name != nullptr && cuda.error_name(result, &name) == kCudaSuccess;
  return named && name != nullptr ? fmt::format("{}: {}", call, name)
                                  : fmt::format("{}: {}", call, result);
}

// What the child says within its time; empty: nothing was refused.
std::string why_refused(const CudaFunctions& cuda, int socket) {
  Reply reply;
  pollfd answered{socket, POLLIN, 0};
  if (::poll(&answered, 1, kPatienceMs) != 1 ||
      ::recv(socket, &reply, sizeof reply, 0) != ssize_t{sizeof reply} ||
      reply.result == kCudaSuccess || reply.call >= kCalls.size())
    return {};
  return said_by(cuda, kCalls[reply.call], reply.result);
}

}  // namespace

MemoryBorrower::MemoryBorrower() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  Descriptor ours(ends[0]);
  Descriptor childs(ends[1]);
  child_ = ::fork();
  if (child_ == 0) {
    ours.close();
    be_child(childs.get());
  }
  if (child_ > 0) socket_ = std::move(ours);
}

MemoryBorrower::~MemoryBorrower() {
  if (child_ < 0) return;
  ::shutdown(socket_.get(), SHUT_WR);
  pollfd ended{socket_.get(), POLLIN, 0};
  if (::poll(&ended, 1, kPatienceMs) == 0) ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string MemoryBorrower::why_not_by_handle(const CudaFunctions& cuda) {
  std::string why;
  CudaFunctions::Address address = 0;
  if (cuda.allocate(&address, kLentBytes) != kCudaSuccess) return why;
  Question question;
  if (const int lent = cuda.lend(&question.handle, address); lent != kCudaSuccess)
    why = said_by(cuda, "cuIpcGetMemHandle", lent);
  else if (send_question(socket_.get(), question, nullptr))
    why = why_refused(cuda, socket_.get());
  (void)cuda.free(address);
  return why;
}

std::string MemoryBorrower::why_not_by_descriptor(const CudaFunctions& cuda,
                                                  CudaFunctions::Device device) {
  if (!has_descriptors(cuda)) return "the CUDA driver shares no memory by descriptors";
  const CudaAllocation wished{.handle_types = kCudaFileDescriptor, .location = {.id = device}};
  CudaFunctions::Memory memory = 0;
  if (const int made = cuda.create_memory(&memory, kLentBytes, &wished, 0); made != kCudaSuccess)
    return said_by(cuda, "cuMemCreate", made);
  std::string why;
  int number = -1;
  if (const int lent = cuda.export_memory(&number, memory, kCudaFileDescriptor, 0);
      lent != kCudaSuccess) {
    why = said_by(cuda, "cuMemExportToShareableHandle", lent);
  } else {
    const Descriptor descriptor(number);
    if (send_question(socket_.get(), {.by_descriptor = true}, &descriptor))
      why = why_refused(cuda, socket_.get());
  }
  (void)cuda.release_memory(memory);
  return why;
}

MemoryBorrower::Refusals MemoryBorrower::why_not(const CudaFunctions& cuda) {
  CudaFunctions::Device device = 0;
  if (child_ < 0 || !has_what_is_needed(cuda) || enter_first_gpu(cuda, &device) != kCudaSuccess)
    return {};
  Refusals why;
  why.by_handle = why_not_by_handle(cuda);
  if (!why.by_handle.empty()) why.by_descriptor = why_not_by_descriptor(cuda, device);
  (void)cuda.set_context(nullptr);
  (void)cuda.release_context(device);
  return why;
}

}  // namespace banyan
