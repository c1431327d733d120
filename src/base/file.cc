// SPDX-License-Identifier: Apache-2.0

#include "src/base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "src/base/descriptor.h"
#include "src/base/system_error.h"

namespace banyan {

namespace {

// Blocks all signals of this thread while it lives.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// A file without a name, or with one of its own where the file system has none without.
struct Draft {
  Descriptor file;
  std::string name;  // empty: it has none and goes when it is closed

  ~Draft() {
    if (!name.empty()) ::unlink(name.c_str());
  }
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Behind symbolic links; as it is where there is nothing yet.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr),
                                                          &std::free);
  return found == nullptr ? path : std::string(found.get());
}

// There is nothing there, or a file.
Status check_target(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0)
    return errno == ENOENT ? Status() : system_error("cannot ask for its kind", errno);
  if (S_ISREG(facts.st_mode)) return {};
  return {Code::kInvalidArgument,
          S_ISDIR(facts.st_mode) ? "this is a folder, not a file" : "this is no regular file"};
}

std::string draft_name(const std::string& path, int number) {
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), number);
}

Status open_draft(const std::string& path, Draft* draft) {
  constexpr int kMode = 0666;  // less what the umask takes away
  constexpr int kAttempts = 100;
  draft->file =
      Descriptor(::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  if (draft->file.valid()) return {};
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOSYS)
    return system_error("cannot make a file in its folder", errno);
  for (int number = 0; number < kAttempts; ++number) {
    const std::string name = draft_name(path, number);
    draft->file = Descriptor(::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode));
    if (draft->file.valid()) draft->name = name;
    if (draft->file.valid() || errno != EEXIST) break;
  }
  return draft->file.valid() ? Status() : system_error("cannot make a file in its folder", errno);
}

// Gives a draft without a name the one of `path`, or one that can be renamed to it.
Status name_draft(const std::string& path, Draft* draft) {
  constexpr int kAttempts = 100;
  const std::string self = fmt::format("/proc/self/fd/{}", draft->file.get());
  const auto link_to = [&](const std::string& name) {
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link_to(path)) return {};
  for (int number = 0; errno == EEXIST && number < kAttempts; ++number) {
    const std::string name = draft_name(path, number);
    if (!link_to(name)) continue;
    draft->name = name;
    return {};
  }
  return system_error("cannot name the new file", errno);
}

enum class Wait : uint8_t { kNever, kForOthers };

// Its errno is still that of opening it.
Result<std::string> read_all(const Descriptor& file, size_t most, Wait wait) {
  if (!file.valid()) return system_error("cannot open it", errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return system_error("cannot ask for its kind", errno);
  if (S_ISDIR(facts.st_mode)) return Status(Code::kInvalidArgument, "this is a folder, not a file");
  std::string text;
  while (text.size() <= most) {
    constexpr size_t kPiece = size_t{1} << 16;
    const size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t got = ::read(file.get(), text.data() + before, kPiece);
    const int error = errno;
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got > 0 || (error == EINTR && wait == Wait::kForOthers)) continue;
    if (error != EAGAIN || wait == Wait::kNever) return system_error("cannot read it", error);
    pollfd readable{.fd = file.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&readable, 1, -1);  // who gave it to us does not wait when reading it
  }
  return Status(Code::kInvalidArgument, fmt::format("larger than {} bytes", most));
}

Status write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("cannot write it", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return ::fsync(file) == 0 ? Status() : system_error("cannot write it", errno);
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return read_all(file, most, Wait::kNever);
}

Result<std::string> read_to_end(const std::string& path, size_t most) {
  if (path == "-") {
    const Descriptor input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    return read_all(input, most, Wait::kForOthers);
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return read_all(file, most, Wait::kForOthers);
}

Status check_replaceable(const std::string& path) {
  const SignalsWait wait;
  const std::string target = real_path(path);
  BANYAN_TRY(check_target(target));
  Draft draft;
  return open_draft(target, &draft);
}

Status replace_file(const std::string& path, std::string_view text) {
  const SignalsWait wait;
  const std::string target = real_path(path);
  BANYAN_TRY(check_target(target));
  Draft draft;
  BANYAN_TRY(open_draft(target, &draft));
  BANYAN_TRY(write_all(draft.file.get(), text));
  if (draft.name.empty()) BANYAN_TRY(name_draft(target, &draft));
  if (draft.name.empty()) return {};
  if (::rename(draft.name.c_str(), target.c_str()) != 0)
    return system_error("cannot put the new file in its place", errno);
  draft.name.clear();
  return {};
}

}  // namespace banyan
