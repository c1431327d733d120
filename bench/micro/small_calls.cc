// SPDX-License-Identifier: Apache-2.0

#include "bench/micro/small_calls.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "src/c_api/handles.h"

namespace banyan {

void need(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "%s failed: %s\n", what, banyan_last_error(nullptr));
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): no other thread of ours runs then
}

SmallCalls::SmallCalls(int ranks, size_t count)
    : count_(count), ranks_(static_cast<size_t>(ranks)) {
  banyan_unique_id_t id;
  need(banyan_get_unique_id(&id) == BANYAN_SUCCESS, "banyan_get_unique_id");
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      banyan_comm_t* comm = &ranks_[static_cast<size_t>(rank)].comm;
      need(banyan_comm_init(comm, ranks, &id, rank, nullptr) == BANYAN_SUCCESS, "banyan_comm_init");
    });
  threads.clear();
  Problem problem;
  problem.count = count;
  for (Rank& rank : ranks_) {
    Driver driver(*(*find_communicator(rank.comm))->membership);
    rank.plan = driver->plan({.problem = problem});
    rank.quick = driver->prepare_quick(rank.plan);
    if (ranks > 1) rank.driver.emplace(std::move(driver));  // a single rank goes through the door
    rank.input.assign(count, 1.0F);
    rank.output.assign(count, 0.0F);
  }
}

SmallCalls::~SmallCalls() {
  std::vector<std::jthread> threads;
  for (Rank& rank : ranks_) {
    rank.driver.reset();
    rank.quick.reset();
    threads.emplace_back([&] {
      banyan_comm_finalize(rank.comm);
      banyan_comm_destroy(rank.comm);
    });
  }
}

void SmallCalls::by_programs() {
  for (Rank& rank : ranks_)
    (*rank.driver)->begin(*rank.quick, rank.input.data(), rank.output.data());
  for (size_t done = 0; done < ranks_.size();) {
    done = 0;
    for (Rank& rank : ranks_) {
      const Program::Stop stop = rank.quick->program.run();
      need(stop != Program::Stop::kOther, "a program");
      if (stop == Program::Stop::kDone) ++done;
    }
  }
}

void SmallCalls::by_engines() {
  for (Rank& rank : ranks_) {
    Call call;
    call.send = rank.input.data();
    call.recv = rank.output.data();
    const Result<Operation*> started = (*rank.driver)->start(rank.plan, call);
    need(started.ok(), "starting an operation");
    rank.operation = *started;
  }
  for (size_t done = 0; done < ranks_.size();) {
    done = 0;
    for (Rank& rank : ranks_) {
      need((*rank.driver)->turn().ok(), "a turn");
      if (rank.operation->done()) ++done;
    }
  }
  for (Rank& rank : ranks_) (*rank.driver)->finish(rank.operation);
}

void SmallCalls::by_door() {
  Rank& rank = ranks_.front();
  need(banyan_allreduce(rank.input.data(), rank.output.data(), count_, BANYAN_FLOAT32, BANYAN_SUM,
                        rank.comm) == BANYAN_SUCCESS,
       "banyan_allreduce");
}

void SmallCalls::prepare(size_t count) {
  const Driver& driver = *ranks_.front().driver;
  Problem problem;
  problem.count = count;
  need(driver->prepare_quick(driver->plan({.problem = problem})) != nullptr, "a program");
}

}  // namespace banyan
