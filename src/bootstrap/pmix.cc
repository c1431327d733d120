// Speaks PMIx, as Open MPI and Slurm offer it to the processes that they start. libpmix is opened
// at run time, so that a build with it runs where it is missing.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/base/clock.h"
#include "src/base/most_ranks.h"
#include "src/bootstrap/frame.h"
#include "src/bootstrap/launcher.h"

namespace banyan {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

// What is called of it.
struct Functions {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Fence) fence = nullptr;
  decltype(&::PMIx_Get) get = nullptr;
  decltype(&::PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// Never closed again: it has threads and exit handlers of its own.
Result<Functions> open_library() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one for each thread
    return Status(Code::kUnsupported,
                  fmt::format("this process was started through PMIx, and {} cannot be opened: {}; "
                              "install it, or set BANYAN_RANK, BANYAN_SIZE and BANYAN_ADDRESS",
                              kLibrary, why != nullptr ? why : "no reason given"));
  }
  Functions functions;
  if (!find(library, "PMIx_Init", functions.init) ||
      !find(library, "PMIx_Finalize", functions.finalize) ||
      !find(library, "PMIx_Put", functions.put) ||
      !find(library, "PMIx_Commit", functions.commit) ||
      !find(library, "PMIx_Fence", functions.fence) || !find(library, "PMIx_Get", functions.get) ||
      !find(library, "PMIx_Error_string", functions.error_string)) {
    return Status(Code::kUnsupported, fmt::format("{} lacks a function of PMIx 2", kLibrary));
  }
  return functions;
}

pmix_info_t information(const char* key) {
  pmix_info_t info{};
  std::strncpy(info.key, key, sizeof info.key - 1);
  return info;
}

class Pmix : public ProcessManager {
 public:
  Pmix(const Functions& functions, TimePoint deadline)
      : functions_(functions), deadline_(deadline) {}
  ~Pmix() override {
    if (started_) (void)functions_.finalize(nullptr, 0);
  }

  Status start();
  int size() const override { return size_; }
  Result<std::string> broadcast(std::string_view key, std::string_view value_of_rank_0) override;

 private:
  Status failed(const char* function, pmix_status_t status) const {
    const bool late = status == PMIX_ERR_TIMEOUT;
    return {late ? Code::kTimeout : Code::kSystem,
            fmt::format("{}: {} ({}){}", function, functions_.error_string(status), status,
                        late ? ": the process manager has not answered within the time limit; a "
                               "rank that has not arrived keeps all others waiting there"
                             : "")};
  }
  Status fence() const;
  Result<std::string> get(std::string_view key) const;

  Functions functions_;
  TimePoint deadline_;
  bool started_ = false;
  pmix_proc_t self_{};
  int size_ = 0;
};

Status Pmix::start() {
  // Its threads are no place for the program's signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pmix_status_t begun = functions_.init(&self_, nullptr, 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (begun != PMIX_SUCCESS) return failed("PMIx_Init", begun);
  started_ = true;
  pmix_proc_t everybody = self_;
  everybody.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = nullptr;
  const pmix_status_t got = functions_.get(&everybody, PMIX_JOB_SIZE, nullptr, 0, &value);
  if (got != PMIX_SUCCESS || value == nullptr) return failed("PMIx_Get of the job's size", got);
  const uint32_t size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
  std::free(value);  // NOLINT(cppcoreguidelines-no-malloc): the library allocates so
  if (size < 1 || size > kMostRanks) {
    return {Code::kSystem, fmt::format("PMIx says that the job has {} ranks", size)};
  }
  size_ = static_cast<int>(size);
  return {};
}

Status Pmix::fence() const {
  pmix_info_t infos[2] = {information(PMIX_COLLECT_DATA), information(PMIX_TIMEOUT)};
  infos[0].value.type = PMIX_BOOL;
  infos[0].value.data.flag = true;
  infos[1].value.type = PMIX_INT;
  // In seconds, and 0 would be for ever.
  infos[1].value.data.integer = milliseconds_until(deadline_, 86'400'000) / 1000 + 1;
  const size_t count = deadline_ == TimePoint::max() ? 1 : 2;
  const pmix_status_t status = functions_.fence(nullptr, 0, infos, count);
  return status == PMIX_SUCCESS ? Status() : failed("PMIx_Fence", status);
}

// PMIx 4.2.2 does not always find at first what the fence before has collected, where a job has
// exchanged something earlier, and then says so or waits for ever: in 2 of 100 jobs under Open MPI
// 4.1.4. Asked to refresh what it knows it finds it.
Result<std::string> Pmix::get(std::string_view key) const {
  constexpr auto kPause = std::chrono::milliseconds(5);  // a thread of the library has to run
  pmix_proc_t first = self_;
  first.rank = 0;
  pmix_info_t infos[2] = {information(PMIX_TIMEOUT), information("pmix.get.refresh")};
  infos[0].value.type = PMIX_INT;
  infos[0].value.data.integer = 1;  // second
  infos[1].value.type = PMIX_BOOL;
  infos[1].value.data.flag = true;
  pmix_value_t* value = nullptr;
  const std::string name(key);
  // The data is on this host after a fence, so that what is not there by then never comes.
  const TimePoint until = std::min(deadline_, Clock::now() + std::chrono::seconds(5));
  const auto is_late = [](pmix_status_t status) {
    return status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT;
  };
  pmix_status_t status = functions_.get(&first, name.c_str(), infos, 1, &value);
  while (is_late(status) && Clock::now() < until) {
    std::this_thread::sleep_for(kPause);
    status = functions_.get(&first, name.c_str(), infos, 2, &value);
  }
  if (status != PMIX_SUCCESS || value == nullptr) return failed("PMIx_Get", status);
  const bool is_text = value->type == PMIX_STRING && value->data.string != nullptr;
  std::string text = is_text ? value->data.string : "";
  // NOLINTBEGIN(cppcoreguidelines-no-malloc): the library allocates so
  if (is_text) std::free(value->data.string);
  std::free(value);
  // NOLINTEND(cppcoreguidelines-no-malloc)
  return text;
}

Result<std::string> Pmix::broadcast(std::string_view key, std::string_view value_of_rank_0) {
  if (self_.rank == 0) {
    std::string text(value_of_rank_0);
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();
    pmix_status_t status = functions_.put(PMIX_GLOBAL, std::string(key).c_str(), &value);
    if (status != PMIX_SUCCESS) return failed("PMIx_Put", status);
    status = functions_.commit();
    if (status != PMIX_SUCCESS) return failed("PMIx_Commit", status);
  }
  BANYAN_TRY(fence());
  return get(key);
}

}  // namespace

Result<std::unique_ptr<ProcessManager>> open_pmix(TimePoint deadline) {
  const auto functions = open_library();
  if (!functions.ok()) return functions.status();
  auto manager = std::make_unique<Pmix>(*functions, deadline);
  BANYAN_TRY(manager->start());
  return std::unique_ptr<ProcessManager>(std::move(manager));
}

}  // namespace banyan
