// Times the collectives of gloo by banyan_perf's method. bench/compare starts the ranks.
//
// usage: gloo_perf RANK RANKS STORE ALGORITHM COLLECTIVE [options of peer.h]
// SPDX-License-Identifier: Apache-2.0

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/peer.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;
using Sum = void (*)(void*, const void*, const void*, size_t);

struct Job {
  Context context;
  std::string algorithm;
  gloo::BarrierOptions barrier;
  std::function<void()>
      call;  // of the size that is measured; made once, as a caller in a loop would
};

constexpr std::array<const char*, 4> kAlgorithms = {"ring", "bcube", "hd", "default"};
constexpr uint32_t kSumTag = 1;

// gloo answers by exceptions; peer_run takes a status.
int guarded(const std::function<void()>& what) {
  try {
    what();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
  }
}

Job& job_of(void* self) {
  return *static_cast<Job*>(self);
}

int barrier(void* self) {
  return guarded([&] { gloo::barrier(job_of(self).barrier); });
}

int sum(void* self, double* value) {
  return guarded([&] {
    gloo::AllreduceOptions options(job_of(self).context);
    options.setOutput(value, 1);
    options.setTag(kSumTag);
    options.setReduceFunction(static_cast<Sum>(&gloo::sum<double>));
    gloo::allreduce(options);
  });
}

std::function<void()> allreduce_call(const Job& job, const PeerCase& a_case) {
  if (job.algorithm == "hd") {
    const auto algorithm = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
        job.context, std::vector<float*>{a_case.recv}, static_cast<int>(a_case.count));
    return [algorithm] { algorithm->run(); };
  }
  const auto options = std::make_shared<gloo::AllreduceOptions>(job.context);
  options->setAlgorithm(job.algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                                 : gloo::AllreduceOptions::Algorithm::RING);
  options->setInput(a_case.send, a_case.count);
  options->setOutput(a_case.recv, a_case.count);
  options->setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
  return [options] { gloo::allreduce(*options); };
}

std::function<void()> reduce_scatter_call(const Job& job, const PeerCase& a_case) {
  const auto ranks = static_cast<size_t>(job.context->size);
  const auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
      job.context, std::vector<float*>{a_case.recv}, static_cast<int>(a_case.count * ranks),
      std::vector<int>(ranks, static_cast<int>(a_case.count)));
  return [algorithm] { algorithm->run(); };
}

std::function<void()> call_of(Job& job, const PeerCase& a_case) {
  const auto ranks = static_cast<size_t>(job.context->size);
  switch (a_case.pattern) {
    case kPeerAllreduce: return allreduce_call(job, a_case);
    case kPeerReduceScatter: return reduce_scatter_call(job, a_case);
    case kPeerAllgather: {
      const auto options = std::make_shared<gloo::AllgatherOptions>(job.context);
      options->setInput(a_case.send, a_case.count);
      options->setOutput(a_case.recv, a_case.count * ranks);
      return [options] { gloo::allgather(*options); };
    }
    case kPeerBroadcast: {
      const auto options = std::make_shared<gloo::BroadcastOptions>(job.context);
      options->setRoot(0);
      options->setOutput(job.context->rank == 0 ? a_case.send : a_case.recv, a_case.count);
      return [options] { gloo::broadcast(*options); };
    }
    case kPeerAlltoall: {
      const auto options = std::make_shared<gloo::AlltoallOptions>(job.context);
      options->setInput(a_case.send, a_case.count * ranks);
      options->setOutput(a_case.recv, a_case.count * ranks);
      return [options] { gloo::alltoall(*options); };
    }
    case kPeerBarrier: return [&job] { gloo::barrier(job.barrier); };
    case kPeerLatency:
    case kPeerBandwidth: break;
  }
  return {};
}

int prepare(void* self, const PeerCase* a_case) {
  return guarded([&] {
    Job& job = job_of(self);
    job.call = call_of(job, *a_case);
  });
}

int run(void* self, const PeerCase* /*a_case*/) {
  return guarded(job_of(self).call);
}

Context connect(int rank, int ranks, const std::string& folder) {
  gloo::transport::tcp::attr where("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

bool known(const std::string& algorithm) {
  for (const char* name : kAlgorithms) {
    if (algorithm == name) return true;
  }
  return false;
}

int measure(int rank, int ranks, const char* folder, const char* algorithm,
            const PeerOptions& options) {
  const Context context = connect(rank, ranks, folder);
  Job job{context, algorithm, gloo::BarrierOptions(context), {}};
  const bool sums_in_place = options.pattern == kPeerReduceScatter ||
                             (options.pattern == kPeerAllreduce && job.algorithm == "hd");
  const Peer library{&job, rank, ranks, sums_in_place, barrier, sum, prepare, run};
  const int status = peer_run(&library, &options);
  // A rank that is done must not close connections that others still use.
  if (status == 0) barrier(&job);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("gloo %d.%d.%d\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
    return 0;
  }
  const int rank = argc > 5 ? std::atoi(argv[1]) : -1;
  const int ranks = argc > 5 ? std::atoi(argv[2]) : 0;
  if (ranks < 1 || rank < 0 || rank >= ranks || !known(argv[4])) {
    std::fprintf(stderr,
                 "usage: gloo_perf RANK RANKS STORE ring|bcube|hd|default COLLECTIVE ...\n");
    return 2;
  }
  PeerOptions options{};
  if (!peer_parse(argc - 4, argv + 4, &options)) return 2;
  if (options.pattern == kPeerLatency || options.pattern == kPeerBandwidth) {
    std::fprintf(stderr, "gloo_perf measures collectives only\n");
    return 2;
  }
  int status = 1;
  if (guarded([&] { status = measure(rank, ranks, argv[3], argv[4], options); }) != 0) return 1;
  return status;
}
