// SPDX-License-Identifier: Apache-2.0

#include "src/base/descriptor_room.h"

#include <dirent.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "src/base/parse.h"

namespace banyan {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

// Those that count against the limit; nothing where that cannot be seen.
std::optional<size_t> open_below(rlim_t limit) {
  const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc/self/fd"));
  if (folder == nullptr && (errno == EMFILE || errno == ENFILE)) return limit;
  if (folder == nullptr) return std::nullopt;
  size_t count = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): our own stream
  while (const dirent* entry = readdir(folder.get())) {
    const Result<int64_t> number = parse_integer(entry->d_name, 0, INT32_MAX);
    if (number.ok() && *number != dirfd(folder.get()) && static_cast<rlim_t>(*number) < limit)
      ++count;
  }
  return count;
}

}  // namespace

Status require_descriptors(size_t count, std::string_view what) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const std::optional<size_t> open = open_below(limit.rlim_cur);
  if (!open || *open + count <= limit.rlim_cur) return {};
  return {Code::kSystem,
          fmt::format("{} takes {} descriptors, and {} of the {} that this process may have are in "
                      "use: raise the limit of open files (ulimit -n) to {} or more",
                      what, count, *open, limit.rlim_cur, *open + count)};
}

}  // namespace banyan
