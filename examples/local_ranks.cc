// Rank 0 makes the unique id after the fork, since the rendezvous lives in the process that made
// it, and passes it through one pipe for each of the others.
// SPDX-License-Identifier: Apache-2.0

#include "examples/local_ranks.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace banyan::example {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
};

Status system_error(std::string_view what) {
  return {Code::kSystem, fmt::format("{}: {}", what, std::system_category().message(errno))};
}

Result<std::vector<Pipe>> open_pipes(int count) {
  std::vector<Pipe> pipes;
  for (int i = 0; i < count; ++i) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return system_error("pipe");
    pipes.push_back({ends[0], ends[1]});
  }
  return pipes;
}

// Unless a process closes the ends that it does not use, nobody sees the end of a pipe.
void close_all_but(const std::vector<Pipe>& pipes, int kept) {
  for (const Pipe& each : pipes) {
    if (each.read != kept) close(each.read);
    if (each.write != kept) close(each.write);
  }
}

Result<Communicator> lead(int count, const std::vector<Pipe>& pipes,
                          const banyan_config_t& config) {
  banyan_unique_id_t id{};
  const banyan_result_t result = banyan_get_unique_id(&id);
  if (result != BANYAN_SUCCESS)
    return Status(static_cast<Code>(result), banyan_last_error(nullptr));
  for (size_t rank = 1; rank < pipes.size(); ++rank) {
    // Smaller than a pipe holds, so it is written at once; a rank that is gone is noticed by
    // communicating.
    if (write(pipes[rank].write, id.bytes, sizeof id.bytes) < 0) return system_error("write");
  }
  for (const Pipe& each : pipes) close(each.write);
  return Communicator::from_unique_id(count, id, 0, &config);
}

Result<Communicator> follow(int count, int rank, int pipe, const banyan_config_t& config) {
  banyan_unique_id_t id{};
  if (read(pipe, id.bytes, sizeof id.bytes) != sizeof id.bytes) {
    return Status(Code::kPeerLost, "rank 0 ended before it had a rendezvous");
  }
  close(pipe);
  return Communicator::from_unique_id(count, id, rank, &config);
}

// The exit status of a rank that has ended, said where it was a signal.
int status_of(int rank, int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fmt::print(stderr, "rank {} was killed by signal {}\n", rank, WTERMSIG(status));
  return 1;
}

int run_local_ranks(int count, const banyan_config_t& config,
                    const std::function<int(Result<Communicator>)>& work) {
  auto pipes = open_pipes(count);
  if (!pipes.ok()) {
    fmt::print(stderr, "{}\n", pipes.status().message());
    return 1;
  }
  const pid_t parent = getpid();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      // No rank outlives the command that started it.
      if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) std::_Exit(1);
      signal(SIGPIPE, SIG_IGN);
      if (rank != 0) close_all_but(*pipes, (*pipes)[static_cast<size_t>(rank)].read);
      const int status =
          work(rank == 0 ? lead(count, *pipes, config)
                         : follow(count, rank, (*pipes)[static_cast<size_t>(rank)].read, config));
      std::fflush(stdout);
      std::_Exit(status);
    }
    if (pid < 0) {
      fmt::print(stderr, "fork: {}\n", std::system_category().message(errno));
      for (const pid_t started : ranks) kill(started, SIGTERM);
      break;
    }
    ranks.push_back(pid);
  }
  close_all_but(*pipes, -1);

  int worst = ranks.size() == static_cast<size_t>(count) ? 0 : 1;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    int status = 0;
    while (waitpid(ranks[rank], &status, 0) < 0 && errno == EINTR) {
    }
    worst = std::max(worst, status_of(static_cast<int>(rank), status));
  }
  return worst;
}

}  // namespace

int run_ranks(const Job& job, const std::function<int(Result<Communicator>)>& work) {
  banyan_compression_t compression = BANYAN_COMPRESSION_INIT;
  compression.fidelity = job.compress == "off" ? BANYAN_EXACT : BANYAN_CODEC;
  compression.codec = job.compress.c_str();
  banyan_config_t config = BANYAN_CONFIG_INIT;
  if (!job.compress.empty()) config.compression = &compression;
  if (job.ranks > 0) return run_local_ranks(job.ranks, config, work);
  return work(Communicator::from_environment(&config));
}

}  // namespace banyan::example
