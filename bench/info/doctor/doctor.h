// Looks for what keeps ranks of this host from running, or from running as fast as they could, each
// with the evidence for it and what to do; and tells for every GPU and NIC whether the NIC could
// read the GPU.
//
// Pure functions of a SysRoot and of what the process itself was told, so that tests invent hosts.
// The identifiers of findings are listed in docs/doctor.md.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/environment.h"
#include "topology/discovery/sysfs.h"
#include "topology/paths.h"
#include "topology/topology.h"

namespace banyan {

enum class Severity : uint8_t {
  kNote,     // worth knowing
  kWarning,  // slower than it need be, or something that was asked for has no effect
  kError,    // ranks do not start, or do not reach each other
};
std::string_view name_of(Severity severity);  // "warning"

struct Finding {
  std::string id{};  // "memory.read"
  Severity severity = Severity::kNote;
  std::string subject{};   // "mlx5_0:1", "BANYAN_TIMEOUT"; empty: the host
  std::string seen{};      // what is the matter
  std::string evidence{};  // the path or call that said so, and what it said
  std::string fix{};       // empty: nothing need be done
};

// There is none for "in use": this version brings what lies in a GPU to the host first.
enum class GpuDirect : uint8_t { kPossible, kImpossible, kUnknown };
std::string_view name_of(GpuDirect verdict);  // "possible but off"

// GPUDirect RDMA between a GPU and a NIC.
struct GpuNic {
  std::string gpu{}, nic{};
  PathClass path = PathClass::kSys;
  GpuDirect verdict = GpuDirect::kUnknown;
  std::string why{};  // the first thing that is missing, and its evidence
  std::string fix{};
};

// What only a process can say of itself. Empty reasons: it works.
struct ProcessFacts {
  std::string no_shared_memory{};    // why it has no memory to share
  bool interrupted = false;          // signals are why
  std::string no_reading{};          // why another process may not read its memory
  std::string no_loopback{};         // why a connection to 127.0.0.1 cannot be made
  std::string no_ucx{}, no_verbs{};  // why a library cannot be opened
  std::string no_gpu{};              // why the CUDA driver, which is there, gives none
  std::string no_kernels{};          // why a GPU runs none of those that this build has
  // Why another process opens no memory of a GPU here, by a handle, and by a descriptor; the latter
  // is asked where handles are refused.
  std::string no_handles{}, no_descriptors{};
  uint64_t locked_bytes_most = ~uint64_t{0};  // RLIMIT_MEMLOCK
};
// Gives the facts of this process. Forks children for a moment; call it before there are threads.
ProcessFacts facts_of_process();

struct Patient {
  const SysRoot& root;
  const Topology& topology;  // as discovered below that root: one node
  const RawEnvironment& raw;
  ProcessFacts process{};
  struct Missing {
    std::string transport{}, why{};
  };
  std::vector<Missing> missing{};  // transports that this build or machine does not have
};

struct Diagnosis {
  std::vector<Finding> findings;  // worst first
  std::vector<GpuNic> pairs;
  bool healthy() const;  // nothing above a note
};
Diagnosis diagnose(const Patient& patient);

// Its parts, in the order in which they are asked.
void examine_variables(const Patient& patient, std::vector<Finding>& findings);
void examine_transports(const Patient& patient, std::vector<Finding>& findings);
void examine_processors(const Patient& patient, std::vector<Finding>& findings);
void examine_memory(const Patient& patient, std::vector<Finding>& findings);
void examine_network(const Patient& patient, std::vector<Finding>& findings);
void examine_rdma(const Patient& patient, std::vector<Finding>& findings);
void examine_cuda(const Patient& patient, std::vector<Finding>& findings);
std::vector<GpuNic> examine_gpus(const Patient& patient);

// Tells what stands between each RDMA device and its use: the file below /dev/infiniband, a port
// that is active, an address. Those without an entry are usable.
std::map<std::string, Finding> rdma_obstacles(const SysRoot& root);

}  // namespace banyan
