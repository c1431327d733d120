// SPDX-License-Identifier: Apache-2.0

#include "python/core/making.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "python/core/errors.h"
#include "python/core/settings.h"
#include "python/core/waiting.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

using Make = std::function<banyan_result_t(banyan_comm_t*)>;

// A meeting that a thread of its own waits for. If nobody wants what it makes any more, it is ended
// at once.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, unwanted = false;
  banyan_comm_t comm = nullptr;
  Failed failed;
};

void give_up(banyan_comm_t comm) {
  if (comm == nullptr) return;
  (void)banyan_comm_abort(comm);
  (void)banyan_comm_destroy(comm);
}

void meet(const std::shared_ptr<Meeting>& meeting, const Make& make) {
  banyan_comm_t comm = nullptr;
  const banyan_result_t result = make(&comm);
  const Failed failed = failure_of(result, nullptr);
  const std::lock_guard lock(meeting->mutex);
  if (meeting->unwanted) {
    give_up(comm);
    return;
  }
  meeting->comm = comm;
  meeting->failed = failed;
  meeting->done = true;
  meeting->changed.notify_one();
}

// Nothing ends the calls that meet but their deadline, so the main thread leaves them to another
// one.
std::shared_ptr<Communicator> make(Make call) {
  watch_for_interrupts();
  const auto meeting = std::make_shared<Meeting>();
  if (!on_main_thread()) {
    const WithoutGil released;
    meet(meeting, call);
  } else {
    std::thread thread([meeting, call = std::move(call)] { meet(meeting, call); });
    for (bool done = false; !done;) {
      {
        const WithoutGil released;
        std::unique_lock lock(meeting->mutex);
        done = meeting->changed.wait_for(lock, std::chrono::milliseconds(50),
                                         [&] { return meeting->done; });
        lock.unlock();
        if (done) thread.join();
      }
      if (done || PyErr_CheckSignals() == 0) continue;
      thread.detach();
      const std::lock_guard lock(meeting->mutex);
      meeting->unwanted = true;
      if (meeting->done) give_up(meeting->comm);
      throw py::error_already_set();
    }
  }
  if (meeting->failed.result != BANYAN_SUCCESS) raise(meeting->failed);
  return std::make_shared<Communicator>(meeting->comm);
}

// The caller's function, called by whichever thread meets, until the caller has gone. A thread must
// not ask for the GIL when the interpreter ends.
struct Exchange {
  PyObject* allgather;  // borrowed
  int size;
  std::atomic<bool> gone{false};
};

int gather(const void* send, void* recv, size_t bytes, void* context) {
  const auto& exchange = *static_cast<Exchange*>(context);
  if (exchange.gone.load()) return 1;
  const py::gil_scoped_acquire acquired;
  if (exchange.gone.load()) return 1;
  try {
    const py::object all =
        py::handle(exchange.allgather)(py::bytes(static_cast<const char*>(send), bytes));
    auto* to = static_cast<char*>(recv);
    if (py::len(all) != static_cast<size_t>(exchange.size)) return 1;
    for (const py::handle each : all) {
      const auto one = py::cast<std::string>(each);
      if (one.size() != bytes) return 1;
      std::memcpy(to, one.data(), bytes);
      to += bytes;
    }
    return 0;
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("the allgather that was given to Comm.over");
    return 1;
  } catch (const std::exception&) {
    return 1;  // it returned what is no sequence of bytes
  }
}

}  // namespace

std::shared_ptr<Communicator> meet_by_launcher(const py::tuple& config) {
  const auto settings = std::make_shared<ConfigSetting>(config);
  return make(
      [settings](banyan_comm_t* comm) { return banyan_comm_init_env(comm, settings->get()); });
}

std::shared_ptr<Communicator> meet_by_id(int rank, int size, const std::string& id,
                                         const py::tuple& config) {
  banyan_unique_id_t unique;
  if (id.size() != sizeof unique.bytes)
    throw py::value_error("unique_id has " + std::to_string(id.size()) +
                          " bytes; right is what unique_id() of one rank returned, " +
                          std::to_string(sizeof unique.bytes));
  std::memcpy(unique.bytes, id.data(), id.size());
  const auto settings = std::make_shared<ConfigSetting>(config);
  return make([=](banyan_comm_t* comm) {
    return banyan_comm_init(comm, size, &unique, rank, settings->get());
  });
}

std::shared_ptr<Communicator> meet_by_exchange(int rank, int size, const py::object& allgather,
                                               const py::tuple& config) {
  const auto exchange = std::make_shared<Exchange>();
  exchange->allgather = allgather.ptr();
  exchange->size = size;
  struct Leave {
    ~Leave() { exchange.gone.store(true); }
    Exchange& exchange;
  };
  const Leave leave{*exchange};
  const auto settings = std::make_shared<ConfigSetting>(config);
  return make([=](banyan_comm_t* comm) {
    const banyan_exchange_t given{sizeof given, rank, size, gather, exchange.get()};
    return banyan_comm_init_exchange(comm, &given, settings->get());
  });
}

std::shared_ptr<Communicator> split(Communicator& parent, int color, int key,
                                    const py::tuple& config) {
  const ConfigSetting settings(config);
  const banyan_comm_t comm = parent.handle();
  banyan_comm_t child = nullptr;
  const Use use(parent);
  check_waited(
      wait_for(comm, [&] { return banyan_comm_split(comm, color, key, &child, settings.get()); }),
      comm);
  return child == nullptr ? nullptr : std::make_shared<Communicator>(child);
}

py::bytes unique_id() {
  banyan_unique_id_t id;
  check(banyan_get_unique_id(&id));
  return {id.bytes, sizeof id.bytes};
}

}  // namespace banyan::python
