// This host, this process, and AF_UNIX sockets.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/links_local.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <system_error>

#include "src/base/system_error.h"
#include "src/liveness/links.h"

namespace banyan {
namespace {

// A short file of /proc; empty where there is none to be read. An error: not now.
Result<std::string> short_file(const char* path) {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
    return system_error(path, errno);
  char buffer[4096];
  const ssize_t got = file.valid() ? ::read(file.get(), buffer, sizeof buffer) : 0;
  return std::string(buffer, got > 0 ? static_cast<size_t>(got) : 0);
}

uint64_t inode_of(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 ? status.st_ino : 0;
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  std::string text(name);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c <= 0x20 || c >= 0x7f; }, '?');
  return text.empty() ? "unknown" : text;
}

Result<Writer> of_boot_and_network() {
  const auto boot = short_file("/proc/sys/kernel/random/boot_id");
  BANYAN_TRY(boot.status());
  Writer writer;
  writer.put_text(boot->empty() ? host_name() : *boot);  // a kernel may tell less
  writer.put(inode_of("/proc/self/ns/net"));
  return writer;
}

std::array<uint8_t, 32> digest_of(std::string_view label, const Writer& writer) {
  const Mac mac = authenticate(Key{}, label, writer.bytes());
  std::array<uint8_t, 32> digest{};
  std::transform(mac.begin(), mac.end(), digest.begin(),
                 [](std::byte byte) { return static_cast<uint8_t>(byte); });
  return digest;
}

struct LocalAddress {
  sockaddr_un name{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Abstract: no file is left behind, whatever ends the process.
LocalAddress local_address(const LocalName& name) {
  std::string text = "banyan-";
  for (const std::byte byte : name) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  LocalAddress address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

Result<Descriptor> local_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket(AF_UNIX)", errno);
  return socket;
}

}  // namespace

uint64_t outer_user(const std::string& uid_map, uint64_t user) {
  std::istringstream lines(uid_map);
  uint64_t inner = 0;
  uint64_t outer = 0;
  uint64_t count = 0;
  while (lines >> inner >> outer >> count)
    if (user >= inner && user - inner < count) return outer + (user - inner);
  return user;
}

bool is_one_user(const std::string& uid_map, uint64_t user, uint64_t overflow) {
  if (user != overflow) return true;
  constexpr uint64_t kAll = UINT32_MAX;  // but for -1, which is none
  std::istringstream lines(uid_map);
  uint64_t inner = 0;
  uint64_t outer = 0;
  uint64_t count = 0;
  uint64_t mapped = 0;
  while (lines >> inner >> outer >> count) mapped += std::min(count, kAll);
  return mapped >= kAll;
}

Result<HostIdentity> this_host() {
  HostIdentity host;
  host.name = host_name();
  auto writer = of_boot_and_network();
  BANYAN_TRY(writer.status());
  const auto users = short_file("/proc/self/uid_map");
  BANYAN_TRY(users.status());
  const auto overflow = short_file("/proc/sys/kernel/overflowuid");
  BANYAN_TRY(overflow.status());
  constexpr uint64_t kUsualOverflow = 65534;
  uint64_t nobody = kUsualOverflow;
  (void)std::from_chars(overflow->data(), overflow->data() + overflow->size(), nobody);
  host.user_is_known = is_one_user(*users, ::geteuid(), nobody);
  writer->put(outer_user(*users, ::geteuid()));
  host.digest = digest_of("banyan host", *writer);
  return host;
}

Result<std::array<uint8_t, 32>> this_network() {
  const auto writer = of_boot_and_network();
  BANYAN_TRY(writer.status());
  return digest_of("banyan network", *writer);
}

ProcessIdentity this_process() {
  ProcessIdentity process;
  process.pid = static_cast<uint64_t>(::getpid());
  process.pid_namespace = inode_of("/proc/self/ns/pid");
  // Field 22, counted from the end of the command's name, which may hold anything.
  const auto stat = short_file("/proc/self/stat");
  const std::string text = stat.ok() ? *stat : "";
  size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at != std::string::npos) {
    (void)std::from_chars(text.data() + at + 1, text.data() + text.size(), process.started);
  }
  return process;
}

Result<LocalName> random_local_name() {
  const auto random = random_key();
  if (!random.ok()) return random.status();
  LocalName name{};
  std::copy_n(random->begin(), name.size(), name.begin());
  return name;
}

Result<Descriptor> listen_local(const LocalName& name) {
  auto socket = local_socket();
  if (!socket.ok()) return socket.status();
  const LocalAddress address = local_address(name);
  if (::bind(socket->get(), address.get(), address.size) != 0 ||
      ::listen(socket->get(), SOMAXCONN) != 0) {
    return system_error("cannot listen at an abstract AF_UNIX name", errno);
  }
  return socket;
}

Result<LocalConnection> connect_local(const LocalName& name) {
  auto socket = local_socket();
  if (!socket.ok()) return socket.status();
  const LocalAddress address = local_address(name);
  if (::connect(socket->get(), address.get(), address.size) != 0) {
    const int error = errno;
    if (error == EAGAIN || error == EINTR)
      return Status(Code::kBusy, std::generic_category().message(error));
    if (error == ECONNREFUSED) return Status(Code::kPeerLost, "it no longer listens");
    return system_error("connect(AF_UNIX)", error);
  }
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket->get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return system_error("getsockopt(SO_PEERCRED)", errno);
  }
  if (credentials.uid != ::geteuid()) {
    return Status(Code::kSystem,
                  fmt::format("a process of user {} listens in its place, not one of "
                              "this user, {}",
                              credentials.uid, ::geteuid()));
  }
  return LocalConnection{std::move(*socket), credentials.pid};
}

}  // namespace banyan
