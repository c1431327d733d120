// Contexts: the primary ones, and which are current in a thread.
// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/capture.h"
#include "tests/cuda/driver/state.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

// body(Context&) -> int, for the primary context of a device, active or not
template <typename Body>
int call_of_primary(const char* function, CuDevice device, const Body& body) {
  return call(function, [&]() -> int {
    const auto& contexts = state().contexts;
    if (device < 0 || static_cast<size_t>(device) >= contexts.size()) return kInvalidDevice;
    return body(*contexts[static_cast<size_t>(device)]);
  });
}

}  // namespace

int cuDevicePrimaryCtxRetain(CuHandle* context, CuDevice device) {
  return call_of_primary(__func__, device, [&](Context& primary) {
    if (context == nullptr) return kInvalidValue;
    primary.retain();
    *context = primary.handle();
    return kSuccess;
  });
}

int cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return call_of_primary(__func__, device, [&](Context& primary) {
    return primary.release() ? kSuccess : kInvalidContext;
  });
}

int cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return call_of_primary(__func__, device, [&](Context& primary) {
    primary.reset();
    return kSuccess;
  });
}

int cuDevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active) {
  return call_of_primary(__func__, device, [&](Context& primary) {
    if (flags == nullptr || active == nullptr) return kInvalidValue;
    *flags = 0;
    *active = primary.active() ? 1 : 0;
    return kSuccess;
  });
}

int cuCtxSetCurrent(CuHandle context) {
  return call(__func__, [&] {
    auto& stack = thread_state().stack;
    Context* const found = context_of(context);
    if (context != nullptr && found == nullptr) return kInvalidContext;
    if (found != nullptr && !found->active()) return kContextIsDestroyed;
    if (!stack.empty()) stack.pop_back();
    if (found != nullptr) stack.push_back(found);
    return kSuccess;
  });
}

int cuCtxGetCurrent(CuHandle* context) {
  return call(__func__, [&] {
    const auto& stack = thread_state().stack;
    if (context == nullptr) return kInvalidValue;
    *context = stack.empty() ? nullptr : stack.back()->handle();
    return kSuccess;
  });
}

int cuCtxPushCurrent_v2(CuHandle context) {
  return call(__func__, [&] {
    Context* const found = context_of(context);
    if (found == nullptr) return kInvalidContext;
    if (!found->active()) return kContextIsDestroyed;
    thread_state().stack.push_back(found);
    return kSuccess;
  });
}

int cuCtxPopCurrent_v2(CuHandle* context) {
  return call(__func__, [&] {
    auto& stack = thread_state().stack;
    if (stack.empty()) return kInvalidContext;
    if (context != nullptr) *context = stack.back()->handle();
    stack.pop_back();
    return kSuccess;
  });
}

int cuCtxGetDevice(CuDevice* device) {
  return call(__func__, [&] {
    const auto& stack = thread_state().stack;
    if (device == nullptr) return kInvalidValue;
    if (stack.empty()) return kInvalidContext;
    *device = stack.back()->device();
    return kSuccess;
  });
}

int cuCtxSynchronize() {
  return unsafe_call(__func__, [](Context& context) {
    if (const int refused = refuse_if_any_captures(context); refused != kSuccess) return refused;
    if (!context.synchronize()) return kDeinitialized;
    return context.broken();
  });
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call_in_context(__func__, [&](Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return kSuccess;
  });
}

int cuCtxEnablePeerAccess(CuHandle peer, unsigned flags) {
  return call_in_context(__func__, [&](Context& context) {
    const Context* const other = context_of(peer);
    if (flags != 0) return kInvalidValue;
    if (other == nullptr || !other->active() || other == &context) return kInvalidContext;
    if (context.allows_peer(other->device())) return kPeerAccessAlreadyEnabled;
    context.allow_peer(other->device(), true);
    return kSuccess;
  });
}

int cuCtxDisablePeerAccess(CuHandle peer) {
  return call_in_context(__func__, [&](Context& context) {
    const Context* const other = context_of(peer);
    if (other == nullptr) return kInvalidContext;
    if (!context.allows_peer(other->device())) return kPeerAccessNotEnabled;
    context.allow_peer(other->device(), false);
    return kSuccess;
  });
}
