/* A user's program in C: one rank sums with itself.
// SPDX-License-Identifier: Apache-2.0 */
#include <banyan/banyan.h>
#include <stdio.h>

#if BANYAN_VERSION < 100
#error "banyan.h has no version"
#endif

int main(void) {
  banyan_unique_id_t id;
  banyan_comm_t comm = NULL;
  float x[3] = {1, 2, 3};
  if (banyan_get_unique_id(&id) != BANYAN_SUCCESS ||
      banyan_comm_init(&comm, 1, &id, 0, NULL) != BANYAN_SUCCESS ||
      banyan_allreduce(x, x, 3, BANYAN_FLOAT32, BANYAN_SUM, comm) != BANYAN_SUCCESS ||
      banyan_comm_finalize(comm) != BANYAN_SUCCESS || banyan_comm_destroy(comm) != BANYAN_SUCCESS) {
    fprintf(stderr, "%s\n", banyan_last_error(NULL));
    return 1;
  }
  printf("version %d, sum %g %g %g\n", banyan_version(), x[0], x[1], x[2]);
  return x[0] == 1 && x[1] == 2 && x[2] == 3 && banyan_version() == BANYAN_VERSION ? 0 : 1;
}
