// Stands in for ucx.cc in a build without UCX.
// SPDX-License-Identifier: Apache-2.0

#include "transports/kinds.h"

namespace banyan {
namespace {

std::string why_missing() {
  return "this build has no UCX; install libucx-dev (Debian, Ubuntu) or ucx-devel (Fedora, RHEL) "
         "and build again with -Ducx=enabled";
}

Result<std::unique_ptr<Transport>> refuse(Wiring& /*wiring*/, std::span<const int> /*peers*/) {
  return Status(Code::kUnsupported, why_missing());
}

}  // namespace

TransportKind ucx_kind() {
  return {.name = "ucx",
          .text = "between hosts, over whatever UCX has: tcp, RDMA",
          .in_memory = false,
          .missing = why_missing,
          .reaches = [](const Wiring::Peer&) { return true; },
          .connect = refuse};
}

}  // namespace banyan
