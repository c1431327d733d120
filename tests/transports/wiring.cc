// Bytes and descriptors between the ranks of a test.
// SPDX-License-Identifier: Apache-2.0

#include "tests/transports/wiring.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <thread>

namespace banyan::test {
namespace {

constexpr size_t kDescriptorsMost = 8;

Status broken(int peer) {
  return {Code::kPeerLost, fmt::format("rank {} does not answer", peer)};
}

bool send_all(int socket, const void* data, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
  return bytes == 0 || recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

// Room for descriptors beside one byte of data.
struct Packet {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMost)> control{};
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  msghdr header{};

  explicit Packet(size_t count) {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
  }
};

}  // namespace

Mesh::Mesh(int size, Ranks ranks) : size_(size), ranks_(ranks), sockets_(size * size) {
  for (int i = 0; i < size; ++i) {
    for (int j = i + 1; j < size; ++j) {
      std::array<int, 2> ends{-1, -1};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
      const timeval patience{.tv_sec = 10, .tv_usec = 0};
      for (const int end : ends) {
        setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      }
      sockets_[i * size + j] = Descriptor(ends[0]);
      sockets_[j * size + i] = Descriptor(ends[1]);
    }
  }
}

std::shared_ptr<void> Mesh::share(const std::string& key,
                                  const std::function<std::shared_ptr<void>()>& make) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<void>& object = shared_[key];
  if (object == nullptr) object = make();
  return object;
}

MeshWiring::MeshWiring(Mesh& mesh, int rank) : mesh_(mesh), rank_(rank), peers_(mesh.size()) {
  for (Peer& peer : peers_) {
    peer = {
        .same_host = true, .same_process = mesh.ranks() == Mesh::Ranks::kThreads, .pid = getpid()};
  }
  if (mesh.ranks() == Mesh::Ranks::kThreads) return;
  const int pid = getpid();
  auto pids = allgather(std::as_bytes(std::span(&pid, 1)));
  for (int r = 0; pids.ok() && r < mesh.size(); ++r) {
    std::memcpy(&peers_[r].pid, (*pids)[r].data(), sizeof pid);
  }
}

Result<std::vector<Bytes>> MeshWiring::allgather(std::span<const std::byte> mine) {
  std::vector<Bytes> result(mesh_.size());
  result[rank_].assign(mine.begin(), mine.end());
  const uint64_t bytes = mine.size();
  for (const int peer : others()) {
    if (!send_all(mesh_.socket(rank_, peer), &bytes, sizeof bytes) ||
        !send_all(mesh_.socket(rank_, peer), mine.data(), mine.size())) {
      return broken(peer);
    }
  }
  for (const int peer : others()) {
    uint64_t theirs = 0;
    if (!receive_all(mesh_.socket(rank_, peer), &theirs, sizeof theirs)) return broken(peer);
    result[peer].resize(theirs);
    if (!receive_all(mesh_.socket(rank_, peer), result[peer].data(), theirs)) return broken(peer);
  }
  return result;
}

Status MeshWiring::send_descriptors(int peer, std::span<const int> descriptors) {
  Packet packet(descriptors.size());
  cmsghdr* part = CMSG_FIRSTHDR(&packet.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  if (sendmsg(mesh_.socket(rank_, peer), &packet.header, MSG_NOSIGNAL) != 1) return broken(peer);
  return {};
}

Result<std::vector<Descriptor>> MeshWiring::receive_descriptors(int peer, size_t count) {
  Packet packet(count);
  if (recvmsg(mesh_.socket(rank_, peer), &packet.header, MSG_CMSG_CLOEXEC) != 1) {
    return broken(peer);
  }
  std::vector<Descriptor> result;
  const cmsghdr* part = CMSG_FIRSTHDR(&packet.header);
  if (part == nullptr || part->cmsg_len != CMSG_LEN(sizeof(int) * count)) return broken(peer);
  for (size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
    result.emplace_back(fd);
  }
  return result;
}

std::shared_ptr<void> MeshWiring::share_in_process(
    std::string_view key, const std::function<std::shared_ptr<void>()>& make) {
  return mesh_.share(std::string(key), make);
}

std::vector<int> MeshWiring::others() const {
  std::vector<int> result;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    if (rank != rank_) result.push_back(rank);
  }
  return result;
}

void run_threads(int size, const std::function<void(MeshWiring&)>& body) {
  Mesh mesh(size, Mesh::Ranks::kThreads);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&mesh, &body, rank] {
      MeshWiring wiring(mesh, rank);
      body(wiring);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string run_processes(int size, const std::function<bool(MeshWiring&)>& body) {
  Mesh mesh(size, Mesh::Ranks::kProcesses);
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      bool good = false;
      {
        MeshWiring wiring(mesh, rank);
        good = body(wiring);
      }
      std::fflush(nullptr);
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  std::string trouble;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (status != 0) trouble += fmt::format("rank {} ended with {:#x}; ", rank, status);
  }
  return trouble;
}

}  // namespace banyan::test
