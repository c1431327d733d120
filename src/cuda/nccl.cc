// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/nccl.h"

#include <dlfcn.h>
#include <fmt/core.h>

namespace banyan {
namespace {

constexpr const char* kUsual = "libnccl.so.2";
constexpr int kLeastVersion = 21400;

template <typename Function>
bool find_in(void* library, const char* name, Function** function) {
  // POSIX has dlsym() give functions as void*.
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Result<NcclFunctions> open_nccl(const std::string& library) {
  const char* const name = library.empty() ? kUsual : library.c_str();
  void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): it is this thread's
    return Status(Code::kUnsupported,
                  fmt::format("NCCL cannot be loaded: {}; BANYAN_NCCL_LIBRARY says where it is",
                              why == nullptr ? name : why));
  }
  NcclFunctions f;
  find_in(handle, "ncclGetLastError", &f.last_error);
  const bool whole = find_in(handle, "ncclGetVersion", &f.version) &&
                     find_in(handle, "ncclGetUniqueId", &f.new_id) &&
                     find_in(handle, "ncclCommInitRankConfig", &f.init) &&
                     find_in(handle, "ncclCommGetAsyncError", &f.async_error) &&
                     find_in(handle, "ncclCommAbort", &f.abort) &&
                     find_in(handle, "ncclGroupStart", &f.group_start) &&
                     find_in(handle, "ncclGroupEnd", &f.group_end) &&
                     find_in(handle, "ncclSend", &f.send) &&
                     find_in(handle, "ncclRecv", &f.receive) &&
                     find_in(handle, "ncclGetErrorString", &f.error_text);
  int version = 0;
  if (!whole || f.version(&version) != kNcclSuccess || version < kLeastVersion)
    return Status(
        Code::kUnsupported,
        fmt::format("{} is no NCCL of version 2.14 or later (it says {})", name, version));
  return f;
}

Status nccl_status(const NcclFunctions& nccl, int result, std::string_view function) {
  if (result == kNcclSuccess || result == kNcclInProgress) return {};
  const char* const detail = nccl.last_error == nullptr ? nullptr : nccl.last_error(nullptr);
  const bool has_detail = detail != nullptr && *detail != '\0';
  return {Code::kCuda, fmt::format("{}: {}{}{}", function, nccl.error_text(result),
                                   has_detail ? ": " : "", has_detail ? detail : "")};
}

}  // namespace banyan
