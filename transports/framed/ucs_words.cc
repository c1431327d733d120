// SPDX-License-Identifier: Apache-2.0

#include "transports/framed/ucs_words.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "src/base/parse.h"

namespace banyan {
namespace {

// UCX calls a handler of its log without saying for whom.
constinit thread_local const Log* connecting = nullptr;

ucs_log_func_rc_t take_words(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                             ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                             const char* format, va_list arguments) {
  if (connecting == nullptr || (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN))
    return UCS_LOG_FUNC_RC_CONTINUE;
  char text[512] = "";
  (void)std::vsnprintf(text, sizeof text, format, arguments);
  BANYAN_LOG(*connecting, Subsystem::kNet, LogLevel::kInfo, "ucx says: {}", printable(text));
  return UCS_LOG_FUNC_RC_STOP;
}

struct Listeners {
  std::mutex mutex;
  int count = 0;
};

Listeners& listeners() {
  static Listeners all;
  return all;
}

}  // namespace

UcsLog UcsLog::find_in(void* library) {
  return {dlsym(library, "ucs_log_push_handler"), dlsym(library, "ucs_log_pop_handler")};
}

// The types are those of 1.10 and later.
UcsWords::UcsWords(const UcsLog& ucs, const Log& log) : ucs_(ucs) {
  if (ucs.push_handler == nullptr || ucs.pop_handler == nullptr) return;
  connecting = &log;
  const std::lock_guard lock(listeners().mutex);
  if (listeners().count++ == 0)
    reinterpret_cast<decltype(&::ucs_log_push_handler)>(ucs.push_handler)(take_words);
}

UcsWords::~UcsWords() {
  if (connecting == nullptr) return;
  connecting = nullptr;
  const std::lock_guard lock(listeners().mutex);
  if (--listeners().count == 0)
    reinterpret_cast<decltype(&::ucs_log_pop_handler)>(ucs_.pop_handler)();
}

}  // namespace banyan
