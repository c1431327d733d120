/* The C program of the README: every rank gives 1, all of them get the sum.
 *
 *   mpirun -n 4 ./allreduce       or   BANYAN_RANK=0 BANYAN_SIZE=1 ./allreduce
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <banyan/banyan.h>
#include <stdio.h>

int main(void) {
  banyan_comm_t comm = NULL;
  float x = 1;
  banyan_result_t result = banyan_comm_init_env(&comm, NULL);
  if (result == BANYAN_SUCCESS)
    result = banyan_allreduce(&x, &x, 1, BANYAN_FLOAT32, BANYAN_SUM, comm);
  if (result == BANYAN_SUCCESS) result = banyan_comm_finalize(comm);
  printf("sum %g: %s\n", x, result == BANYAN_SUCCESS ? "ok" : banyan_last_error(NULL));
  return banyan_comm_destroy(comm) != BANYAN_SUCCESS || result != BANYAN_SUCCESS;
}
