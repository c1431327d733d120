// banyan.h: results, memory and operations.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <cstring>

#include "src/base/process.h"
#include "src/base/touch_pages.h"
#include "src/c_api/arguments.h"
#include "src/c_api/run.h"
#include "src/c_api/structs.h"
#include "src/cuda/device_memory.h"
#include "src/cuda/host_twin.h"

using banyan::Code;
using banyan::door;
using banyan::OpenCommunicator;
using banyan::Result;
using banyan::Status;

namespace {

Status allocate(banyan_comm_t comm, void** memory, size_t bytes) {
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  if (memory == nullptr) return {Code::kInvalidArgument, "memory is NULL"};
  BANYAN_TRY(banyan::check_usable(**found));
  const Result<void*> made =
      banyan::Driver(*(*found)->membership)->allocate(bytes == 0 ? 1 : bytes);
  BANYAN_TRY(made.status());
  // Here, where it holds up nothing that is under way.
  banyan::touch_pages(static_cast<std::byte*>(*made), bytes, banyan::Touch::kWrite);
  *memory = *made;
  return {};
}

Status release(banyan_comm_t comm, void* memory) {
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  if (memory == nullptr) return {};
  return banyan::Driver(*(*found)->membership)->release(memory);
}

Status create(banyan_comm_t comm, const void* scalar, int datatype, banyan_op_t* op) {
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  if (scalar == nullptr) return {Code::kInvalidArgument, "scalar is NULL"};
  if (op == nullptr) return {Code::kInvalidArgument, "op is NULL"};
  const Result<banyan::DataType> type = banyan::check_type(datatype);
  BANYAN_TRY(type.status());
  BANYAN_TRY(banyan::check_usable(**found));
  banyan::look_for_cuda_driver();
  BANYAN_TRY(banyan::must_be_staged("scalar", scalar).status());
  banyan::HostTwin given(scalar, banyan::size_of(*type));
  BANYAN_TRY(given.bring());
  OpenCommunicator::Scalar kept{*type, {}};
  std::memcpy(kept.value.data(), given.data(), banyan::size_of(*type));
  *op = banyan::process().next_operation();
  (*found)->scalars[*op] = kept;
  return {};
}

Status destroy(banyan_comm_t comm, banyan_op_t op) {
  const Result<OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  if ((*found)->scalars.erase(op) == 0)
    return {Code::kInvalidArgument,
            fmt::format("op {} is not from banyan_op_create_premulsum of this communicator, or was "
                        "destroyed",
                        op)};
  return {};
}

}  // namespace

const char* banyan_result_string(banyan_result_t result) {
  // The texts are literals, hence terminated.
  return banyan::describe(static_cast<Code>(banyan::number_in(result))).data();
}

static_assert(BANYAN_VERSION == BANYAN_BUILD_VERSION,
              "banyan/version.h and meson.build have the same version");
int banyan_version(void) {
  return BANYAN_VERSION;
}

banyan_result_t banyan_mem_alloc(banyan_comm_t comm, void** memory, size_t bytes) {
  return door(comm, [&] { return allocate(comm, memory, bytes); });
}

banyan_result_t banyan_mem_free(banyan_comm_t comm, void* memory) {
  return door(comm, [&] { return release(comm, memory); });
}

banyan_result_t banyan_op_create_premulsum(banyan_comm_t comm, const void* scalar,
                                           banyan_datatype_t datatype, banyan_op_t* op) {
  return door(comm, [&] { return create(comm, scalar, banyan::number_in(datatype), op); });
}

banyan_result_t banyan_op_destroy(banyan_comm_t comm, banyan_op_t op) {
  return door(comm, [&] { return destroy(comm, op); });
}
