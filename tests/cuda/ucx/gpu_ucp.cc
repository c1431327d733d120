// A UCX that knows GPUs, for machines without either: the system's UCX, which gets a copy of what
// is in the memory of the stand-in's GPUs and whose messages are brought there. Where UCX itself
// would need a context of CUDA and there is none, it refuses.
//
// It has the name of the library, and what Banyan calls there.
// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/ucx/gpu_ucp.h"

#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/cuda/driver/standin.h"

namespace {

std::atomic<long> sends, receives;

void* in_library(void* library, const char* name) {
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found != nullptr) return found;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): dlerror() is per thread in glibc
  (void)std::fprintf(stderr, "no %s: %s\n", name, dlerror());
  std::abort();
}

void* real(const char* name) {
  static void* const library = dlopen(REAL_UCP, RTLD_NOW | RTLD_LOCAL);
  return in_library(library, name);
}

template <typename Function>
Function* of_driver(const char* name) {
  static void* const driver = dlopen(std::getenv("STANDIN_CUDA"), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(in_library(driver, name));
}

// A message whose memory is in a GPU, as the system's UCX has it.
struct InGpu {
  std::vector<std::byte> copy;
  uint64_t memory;
  ucp_request_param_t asked;  // by whoever sends or receives it
};

bool is_in_gpu(const ucp_request_param_t& asked) {
  return (asked.op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) != 0 &&
         asked.memory_type == UCS_MEMORY_TYPE_CUDA;
}

bool has_context() {
  void* context = nullptr;
  return of_driver<int(void**)>("cuCtxGetCurrent")(&context) == 0 && context != nullptr;
}

std::unique_ptr<InGpu> in_gpu(const void* memory, size_t bytes, const ucp_request_param_t& asked) {
  auto made = std::make_unique<InGpu>();
  made->copy.resize(bytes);
  made->memory = reinterpret_cast<uintptr_t>(memory);
  made->asked = asked;
  return made;
}

ucp_request_param_t of_copy(InGpu& message) {
  ucp_request_param_t parameters = message.asked;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  parameters.user_data = &message;
  return parameters;
}

void on_sent(void* request, ucs_status_t status, void* data) {
  const std::unique_ptr<InGpu> message(static_cast<InGpu*>(data));
  message->asked.cb.send(request, status, message->asked.user_data);
}

void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
  const std::unique_ptr<InGpu> message(static_cast<InGpu*>(data));
  if (status == UCS_OK)
    of_driver<decltype(standin_cuda_poke)>("standin_cuda_poke")(message->memory,
                                                                message->copy.data(), info->length);
  message->asked.cb.recv(request, status, info, message->asked.user_data);
}

}  // namespace

long gpu_ucp_sends() {
  return sends;
}
long gpu_ucp_receives() {
  return receives;
}

extern "C" {

#define REAL(name) reinterpret_cast<decltype(&(name))>(real(#name))

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t* attributes) {
  const ucs_status_t status = REAL(ucp_context_query)(context, attributes);
  attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  return status;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void* buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t* param) {
  if (!is_in_gpu(*param)) return REAL(ucp_tag_send_nbx)(ep, buffer, count, tag, param);
  if (!has_context()) return UCS_STATUS_PTR(UCS_ERR_NO_DEVICE);
  ++sends;
  std::unique_ptr<InGpu> message = in_gpu(buffer, count, *param);
  of_driver<decltype(standin_cuda_peek)>("standin_cuda_peek")(message->copy.data(), message->memory,
                                                              count);
  ucp_request_param_t parameters = of_copy(*message);
  parameters.cb.send = on_sent;
  const ucs_status_ptr_t result =
      REAL(ucp_tag_send_nbx)(ep, message->copy.data(), count, tag, &parameters);
  if (UCS_PTR_IS_PTR(result)) (void)message.release();  // the callback's
  return result;
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void* buffer, size_t count, ucp_tag_t tag,
                                  ucp_tag_t tag_mask, const ucp_request_param_t* param) {
  if (!is_in_gpu(*param))
    return REAL(ucp_tag_recv_nbx)(worker, buffer, count, tag, tag_mask, param);
  if (!has_context()) return UCS_STATUS_PTR(UCS_ERR_NO_DEVICE);
  ++receives;
  std::unique_ptr<InGpu> message = in_gpu(buffer, count, *param);
  ucp_request_param_t parameters = of_copy(*message);
  parameters.cb.recv = on_received;
  const ucs_status_ptr_t result =
      REAL(ucp_tag_recv_nbx)(worker, message->copy.data(), count, tag, tag_mask, &parameters);
  if (UCS_PTR_IS_PTR(result)) (void)message.release();
  return result;
}

void ucp_cleanup(ucp_context_h context) {
  REAL(ucp_cleanup)(context);
}
ucs_status_t ucp_config_modify(ucp_config_t* config, const char* name, const char* value) {
  return REAL(ucp_config_modify)(config, name, value);
}
ucs_status_t ucp_config_read(const char* prefix, const char* file, ucp_config_t** config) {
  return REAL(ucp_config_read)(prefix, file, config);
}
void ucp_config_release(ucp_config_t* config) {
  REAL(ucp_config_release)(config);
}
ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t* param) {
  return REAL(ucp_ep_close_nbx)(ep, param);
}
ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* ep_p) {
  return REAL(ucp_ep_create)(worker, params, ep_p);
}
const char* ucp_get_version_string() {
  return REAL(ucp_get_version_string)();
}
ucs_status_t ucp_init_version(unsigned api_major_version, unsigned api_minor_version,
                              const ucp_params_t* params, const ucp_config_t* config,
                              ucp_context_h* context_p) {
  return REAL(ucp_init_version)(api_major_version, api_minor_version, params, config, context_p);
}
void ucp_request_cancel(ucp_worker_h worker, void* request) {
  REAL(ucp_request_cancel)(worker, request);
}
void ucp_request_free(void* request) {
  REAL(ucp_request_free)(request);
}
ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void* buffer, size_t count,
                                      ucp_tag_message_h message, const ucp_request_param_t* param) {
  return REAL(ucp_tag_msg_recv_nbx)(worker, buffer, count, message, param);
}
ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t mask, int remove,
                                   ucp_tag_recv_info_t* info) {
  return REAL(ucp_tag_probe_nb)(worker, tag, mask, remove, info);
}
ucs_status_t ucp_worker_arm(ucp_worker_h worker) {
  return REAL(ucp_worker_arm)(worker);
}
ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t* params,
                               ucp_worker_h* worker_p) {
  return REAL(ucp_worker_create)(context, params, worker_p);
}
void ucp_worker_destroy(ucp_worker_h worker) {
  REAL(ucp_worker_destroy)(worker);
}
ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t* parameters) {
  return REAL(ucp_worker_flush_nbx)(worker, parameters);
}
ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t** address_p,
                                    size_t* address_length_p) {
  return REAL(ucp_worker_get_address)(worker, address_p, address_length_p);
}
ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int* fd) {
  return REAL(ucp_worker_get_efd)(worker, fd);
}
unsigned ucp_worker_progress(ucp_worker_h worker) {
  return REAL(ucp_worker_progress)(worker);
}
void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t* address) {
  REAL(ucp_worker_release_address)(worker, address);
}
const char* ucs_status_string(ucs_status_t status) {
  return REAL(ucs_status_string)(status);
}
}
