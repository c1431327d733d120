// Ranks of a test, as threads or as processes made by fork(): a mesh of socket pairs between them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transports/transport.h"

namespace banyan::test {

inline constexpr uint32_t kEpoch = 77;

// What all ranks of one test have in common. Make it before the threads or the forks.
class Mesh {
 public:
  enum class Ranks : uint8_t { kThreads, kProcesses };
  Mesh(int size, Ranks ranks);

  int size() const { return size_; }
  Ranks ranks() const { return ranks_; }
  int socket(int from, int to) const { return sockets_[from * size_ + to].get(); }
  // Processes: each says who it is before it connects.
  std::shared_ptr<void> share(const std::string& key,
                              const std::function<std::shared_ptr<void>()>& make);

 private:
  int size_;
  Ranks ranks_;
  std::vector<Descriptor> sockets_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<void>> shared_;
};

// One rank's end of the mesh. A peer that does not answer within ten seconds is an error.
class MeshWiring final : public Wiring {
 public:
  MeshWiring(Mesh& mesh, int rank);

  int rank() const override { return rank_; }
  int size() const override { return mesh_.size(); }
  const Peer& peer(int rank) const override { return peers_[rank]; }
  uint32_t epoch() const override { return kEpoch; }
  const Log& log() const override { return log_; }
  TimePoint deadline() const override { return deadline_; }
  Status news() override { return news_; }
  std::string_view net_devices() const override { return net_devices_; }
  std::span<const Interface> interfaces() const override { return interfaces_; }
  // Tests take the same ways on every machine.
  std::optional<uint64_t> single_copy_least() const override { return single_copy_least_; }
  std::optional<bool> gpu_direct() const override { return gpu_direct_; }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override;
  Status send_descriptors(int peer, std::span<const int> descriptors) override;
  Result<std::vector<Descriptor>> receive_descriptors(int peer, size_t count) override;
  std::shared_ptr<void> share_in_process(
      std::string_view key, const std::function<std::shared_ptr<void>()>& make) override;

  // What connecting is told of the time that it has, and of other ranks.
  void tell(TimePoint deadline, const Status& news) {
    deadline_ = deadline;
    news_ = news;
  }

  void use_gpu_direct(std::optional<bool> direct) { gpu_direct_ = direct; }
  void use_single_copy(std::optional<uint64_t> least) { single_copy_least_ = least; }
  void use_net_devices(std::string_view devices) { net_devices_ = devices; }
  void use_interfaces(std::vector<Interface> interfaces) { interfaces_ = std::move(interfaces); }

  // All ranks but this one.
  std::vector<int> others() const;

 private:
  Mesh& mesh_;
  int rank_;
  std::vector<Peer> peers_;
  Log log_;
  TimePoint deadline_ = deadline_after(10);
  Status news_;
  std::optional<bool> gpu_direct_;
  std::optional<uint64_t> single_copy_least_ = 64 << 10;
  std::string net_devices_;
  std::vector<Interface> interfaces_;
};

// Runs `body` as every rank in a thread of its own and waits for all of them.
void run_threads(int size, const std::function<void(MeshWiring&)>& body);
// The same with processes; `body` says whether all was well. Empty, or what went wrong.
std::string run_processes(int size, const std::function<bool(MeshWiring&)>& body);

}  // namespace banyan::test
