// TCP sockets for Addresses.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/rendezvous_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "src/base/system_error.h"

namespace banyan {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const Address& address) {
  SocketAddress made;
  if (address.v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::memcpy(&v6.sin6_addr, address.ip.data(), 16);
    std::memcpy(&made.storage, &v6, sizeof v6);
    made.size = sizeof v6;
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.ip.data(), 4);
    std::memcpy(&made.storage, &v4, sizeof v4);
    made.size = sizeof v4;
  }
  return made;
}

Address address_of(const sockaddr_storage& storage) {
  Address address;
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof v6);
    address.v6 = true;
    std::memcpy(address.ip.data(), &v6.sin6_addr, 16);
    address.port = ntohs(v6.sin6_port);
  } else if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof v4);
    std::memcpy(address.ip.data(), &v4.sin_addr, 4);
    address.port = ntohs(v4.sin_port);
  }
  return address;
}

void set_option(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

// Says what would be right, where the error alone does not.
std::string remedy(const Address& address, int error) {
  if (error == ENETUNREACH && address.loopback())
    return "; loopback is down on this host: ip link set lo up";
  if (error == ENETUNREACH || error == ENETDOWN) return "; no route leads there from this host";
  if (error == EADDRNOTAVAIL && address.loopback())
    return "; loopback has no such address on this host: ip link set lo up";
  if (error == EADDRNOTAVAIL) return "; this host has no address or no port left to connect from";
  if (error == EAFNOSUPPORT)
    return fmt::format("; this host has no {}", address.v6 ? "IPv6" : "IPv4");
  if (error == EACCES || error == EPERM)
    return "; a firewall or a security policy of this host forbids it";
  return {};
}

Result<Descriptor> tcp_socket(const Address& address) {
  Descriptor socket(
      ::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    const int error = errno;
    return Status(Code::kSystem, fmt::format("socket: {}{}", std::generic_category().message(error),
                                             remedy(address, error)));
  }
  return socket;
}

// kBusy: that port is taken; kSystem: all are, where any would do (port 0).
Result<Listener> listen_on_port(Address address, uint16_t port) {
  address.port = port;
  auto socket = tcp_socket(address);
  if (!socket.ok()) return socket.status();
  // A port whose connections are in TIME_WAIT can be used at once by the next meeting.
  set_option(socket->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SocketAddress name = socket_address(address);
  if (::bind(socket->get(), name.get(), name.size) != 0 ||
      ::listen(socket->get(), SOMAXCONN) != 0) {
    const int error = errno;
    return Status(error == EADDRINUSE && port != 0 ? Code::kBusy : Code::kSystem,
                  fmt::format("cannot listen at {}: {}{}", address.text(),
                              std::generic_category().message(error),
                              error == EADDRNOTAVAIL && !address.loopback()
                                  ? "; it must be an address of the host that rank 0 runs on"
                                  : remedy(address, error)));
  }
  name.size = sizeof name.storage;
  if (::getsockname(socket->get(), name.get(), &name.size) != 0) {
    return system_error("getsockname", errno);
  }
  return Listener{std::move(*socket), address_of(name.storage)};
}

}  // namespace

Result<Listener> listen_at(const Address& address, const PortRange& ports) {
  if (std::all_of(address.ip.begin(), address.ip.end(), [](uint8_t byte) { return byte == 0; })) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot listen at {}: ranks meet at one address, not at all of them",
                              address.text()));
  }
  if (address.port != 0 || ports.first == 0) return listen_on_port(address, address.port);
  for (int port = ports.first; port <= ports.last; ++port) {
    auto listener = listen_on_port(address, static_cast<uint16_t>(port));
    if (listener.ok() || listener.status().code() != Code::kBusy) return listener;
  }
  return Status(Code::kSystem,
                fmt::format("all ports of BANYAN_PORT_RANGE={}-{} are taken; give it more",
                            ports.first, ports.last));
}

bool waiting_mends(int error) {
  switch (error) {
    case EADDRINUSE:  // a port is taken
    case EAGAIN:      // a backlog is full
    case ECONNABORTED:
    case ECONNREFUSED:  // nobody listens yet
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:  // a host does not answer yet, or is not up
    case EINTR:
    case ENETRESET:
    case ETIMEDOUT: return true;
    // The rest is final: ENETUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT,
    // EACCES, EPERM, and what this process has run out of: EMFILE, ENFILE, ENOMEM, ENOBUFS.
    default: return false;
  }
}

Result<Descriptor> begin_connect(const Address& address) {
  auto socket = tcp_socket(address);
  if (!socket.ok()) return socket.status();
  send_at_once(socket->get());
  SocketAddress name = socket_address(address);
  if (::connect(socket->get(), name.get(), name.size) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    const int error = errno;
    return Status(waiting_mends(error) ? Code::kPeerLost : Code::kSystem,
                  fmt::format("connect to {}: {}{}", address.text(),
                              std::generic_category().message(error), remedy(address, error)));
  }
  return socket;
}

int connect_result(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

Address peer_of(int socket) {
  SocketAddress name;
  name.size = sizeof name.storage;
  if (::getpeername(socket, name.get(), &name.size) != 0) return {};
  return address_of(name.storage);
}

std::optional<Address> own_end_of(int socket) {
  SocketAddress name;
  name.size = sizeof name.storage;
  if (::getsockname(socket, name.get(), &name.size) != 0) return std::nullopt;
  return address_in(name.get());
}

void send_at_once(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

void tune_tcp(int socket) {
  send_at_once(socket);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 3000);
}

}  // namespace banyan
