// Does the same as allreduce.c in C++: averages a vector of each rank's own over all ranks, in
// place.
//
//   mpirun -n 4 ./allreduce_cpp   or   BANYAN_RANK=0 BANYAN_SIZE=1 ./allreduce_cpp
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <string>
#include <vector>

#include "banyan/communicator.h"

namespace {

banyan::Status average() {
  auto made = banyan::Communicator::from_environment();
  if (!made.ok()) return made.status();
  banyan::Communicator& communicator = *made;

  std::vector<double> values(3, communicator.rank());
  BANYAN_TRY(communicator.allreduce(values, banyan::ReduceOp::kAvg));
  std::printf("rank %d of %d has %g %g %g\n", communicator.rank(), communicator.size(), values[0],
              values[1], values[2]);
  return communicator.finalize();
}

}  // namespace

int main() {  // NOLINT(bugprone-exception-escape): without memory it may just end
  const banyan::Status status = average();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
