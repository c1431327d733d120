// A user's program in C++: one rank sums with itself, and sends itself a message of a codec.
// SPDX-License-Identifier: Apache-2.0

#include <banyan/communicator.h>

#include <cstdio>
#include <string>
#include <vector>

int main() {
  banyan_unique_id_t id;
  if (banyan_get_unique_id(&id) != BANYAN_SUCCESS) return 1;
  auto made = banyan::Communicator::from_unique_id(1, id, 0);
  std::vector<double> x = {1, 2, 3};
  banyan::Status status = made.status();
  if (status.ok()) status = made->allreduce(x, banyan::ReduceOp::kSum);
  if (status.ok()) status = made->finalize();
  banyan_encode_t how = BANYAN_ENCODE_INIT;
  how.codec = "threshold:2";
  const auto message = banyan::encode(x, how);
  std::vector<double> y = {9, 9, 9};
  if (status.ok()) status = message.status();
  if (status.ok()) status = banyan::decode(*message, y);
  if (status.ok()) status = banyan::decode_add(*message, y);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf("sum %g %g %g\n", x[0], x[1], x[2]);
  return x == std::vector<double>{1, 2, 3} && y == std::vector<double>{0, 4, 6} ? 0 : 1;
}
