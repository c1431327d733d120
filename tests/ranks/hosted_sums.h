// Ranks with a GPU each on two hosts, and sums there that the host makes, too.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compression/cuda/image.h"
#include "tests/ranks/device_vectors.h"
#include "tests/ranks/two_hosts.h"
#include "tests/support/sanitizers.h"
#include "transports/transport.h"

namespace banyan::test {

class OnTwoHosts : public WithRanks {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kThreads) GTEST_SKIP() << "a thread has no host of its own";
    if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
    if (kThreadSanitizer)
      GTEST_SKIP() << "UCX dies in a child of fork() under the thread sanitizer";
    for (const TransportKind& kind : transport_kinds())
      if (kind.name == "ucx" && !kind.missing().empty()) GTEST_SKIP() << kind.missing();
    hosts_.emplace();
    if (!hosts_->made()) GTEST_SKIP() << "network namespaces cannot be made here";
  }

  // Rank by rank, on which host each lies.
  void run_on(const std::vector<int>& hosts,
              const std::function<void(Rank&, banyan_comm_t, RankGpu&)>& body,
              const decltype(JobOptions::environment)& environment = {
                  {"BANYAN_ALGO", "hierarchical"}}) {
    run(static_cast<int>(hosts.size()),
        [&](Rank& self) {
          const int host = hosts[static_cast<size_t>(self.rank())];
          if (!self.expect(enter(host), "a host")) return;
          RankGpu gpu(self);
          banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
          if (comm == nullptr) return;
          body(self, comm, gpu);
          self.leave(comm);
        },
        {.limit_s = 60, .environment = environment});
  }

  bool enter(int host) const { return hosts_->enter(host); }

 private:
  std::optional<TwoHosts> hosts_;
};

struct HostedSum {
  banyan_datatype_t type = BANYAN_FLOAT32;
  banyan_op_t op = BANYAN_SUM;
  size_t count = 70'001;
  const char* codec = nullptr;  // between hosts

  size_t bytes() const { return count * (type == BANYAN_FLOAT32 ? 4 : 2); }
};

inline banyan_result_t sum(const HostedSum& what, void* memory, banyan_comm_t comm) {
  banyan_compression_t codec = BANYAN_COMPRESSION_INIT;
  codec.fidelity = BANYAN_CODEC;
  codec.codec = what.codec;
  return call_request(call_of([&](banyan_call_t& made) {
                        made.send = made.recv = memory;
                        made.count = what.count;
                        made.datatype = what.type;
                        made.op = what.op;
                        if (what.codec != nullptr) made.compression = &codec;
                      }),
                      comm);
}

// From a half to two in bfloat16, and ordinary numbers in float32.
inline std::vector<uint16_t> values_of(int rank, size_t bytes, int salt) {
  std::vector<uint16_t> values(bytes / 2);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint16_t>(
        (mix(i * 16 + static_cast<size_t>(rank) * 7919 + static_cast<size_t>(salt) * 104729) &
         0x80ff) |
        0x3f00);
  return values;
}

// In memory of the host and then in that of the GPU, if this rank is to have it there.
inline void expect_same(Rank& self, banyan_comm_t comm, RankGpu& gpu, const HostedSum& what,
                        bool on_gpu, int salt) {
  const std::string name = fmt::format("sum {} of {}", salt, what.count);
  std::vector<uint16_t> wanted = values_of(self.rank(), what.bytes(), salt);
  self.expect_ok(sum(what, wanted.data(), comm), name + " by the host");
  std::vector<uint16_t> got = values_of(self.rank(), what.bytes(), salt);
  std::byte* memory = on_gpu ? gpu.copy_of(got.data(), what.bytes()) : nullptr;
  self.expect_ok(sum(what, on_gpu ? static_cast<void*>(memory) : got.data(), comm), name);
  if (on_gpu) {
    gpu.read(got.data(), memory, what.bytes());
    gpu.free(memory);
  }
  self.expect(got == wanted, name + ": the bits of the host");
}

}  // namespace banyan::test
