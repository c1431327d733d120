/* Ranks of which the last one comes too late, and which try again: through a process manager that
 * still owes an answer the second init ends at once.
 *
 * usage: init_again SECONDS      by which the last rank is late, under mpirun or mpiexec
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <banyan/banyan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int number(const char* one, const char* other) {
  const char* text = getenv(one);
  if (text == NULL) text = getenv(other);
  return text == NULL ? -1 : atoi(text);
}

int main(int count, char** words) {
  const int rank = number("OMPI_COMM_WORLD_RANK", "PMI_RANK");
  const int size = number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
  banyan_comm_t comm = NULL;
  if (count > 1 && rank == size - 1) sleep((unsigned)atoi(words[1]));
  const banyan_result_t first = banyan_comm_init_env(&comm, NULL);
  const time_t begin = time(NULL);
  const banyan_result_t second = banyan_comm_init_env(&comm, NULL);
  const int at_once = time(NULL) - begin <= 1;
  const int says_why = strstr(banyan_last_error(NULL), "an earlier exchange") != NULL;
  if (first == BANYAN_ERR_TIMEOUT && second == BANYAN_ERR_TIMEOUT && at_once && says_why)
    printf("rank %d: at once\n", rank);
  else
    printf("rank %d: %d, %d, %s\n", rank, (int)first, (int)second, banyan_last_error(NULL));
  return 3;
}
