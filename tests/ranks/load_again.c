/* A plug-in host: opens the library, uses it in a thread of its own, closes it, and again.
 *
 * usage: load_again LIBRARY ROUNDS [live]     live: the communicator is still there at the end
 * SPDX-License-Identifier: Apache-2.0 */
#include <banyan/banyan.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct use {
  void* handle;
  int live;
  int failed;
};

/* A function is no void pointer to ISO C, but to POSIX. */
static void find(void* library, const char* name, void* function) {
  *(void**)function = dlsym(library, name);
}

static int tell(void* library, const char* what, banyan_result_t result) {
  const char* (*last_error)(banyan_comm_t) = NULL;
  find(library, "banyan_last_error", &last_error);
  if (result != BANYAN_SUCCESS) printf("%s: %s\n", what, last_error(NULL));
  return result != BANYAN_SUCCESS;
}

static void* work(void* argument) {
  struct use* use = argument;
  banyan_result_t (*init)(banyan_comm_t*, const banyan_config_t*) = NULL;
  banyan_result_t (*allreduce)(const void*, void*, size_t, banyan_datatype_t, banyan_op_t,
                               banyan_comm_t) = NULL;
  banyan_result_t (*size_of)(banyan_comm_t, int*) = NULL;
  banyan_result_t (*finalize)(banyan_comm_t) = NULL;
  banyan_result_t (*destroy)(banyan_comm_t) = NULL;
  find(use->handle, "banyan_comm_init_env", &init);
  find(use->handle, "banyan_allreduce", &allreduce);
  find(use->handle, "banyan_comm_size", &size_of);
  find(use->handle, "banyan_comm_finalize", &finalize);
  find(use->handle, "banyan_comm_destroy", &destroy);
  banyan_comm_t comm = NULL;
  float x = 1;
  int size = 0;
  use->failed = 1;
  if (tell(use->handle, "init", init(&comm, NULL))) return NULL;
  if (tell(use->handle, "allreduce", allreduce(&x, &x, 1, BANYAN_FLOAT32, BANYAN_SUM, comm)))
    return NULL;
  if (tell(use->handle, "size", size_of(comm, &size))) return NULL;
  if (size < 2 || x != (float)size) {
    printf("%d ranks and the sum %g\n", size, x);
    return NULL;
  }
  use->failed = 0;
  if (use->live) return NULL;
  use->failed |= tell(use->handle, "finalize", finalize(comm));
  use->failed |= tell(use->handle, "destroy", destroy(comm));
  return NULL;
}

int main(int count, char** words) {
  const int rounds = count > 2 ? atoi(words[2]) : 0;
  int failed = 0;
  for (int round = 0; round < rounds; ++round) {
    struct use use = {dlopen(words[1], RTLD_NOW | RTLD_LOCAL),
                      count > 3 && strcmp(words[3], "live") == 0, 0};
    pthread_t thread;
    if (use.handle == NULL) {
      printf("%s\n", dlerror());
      return 1;
    }
    if (pthread_create(&thread, NULL, work, &use) != 0) return 1;
    pthread_join(thread, NULL);
    failed |= use.failed;
    dlclose(use.handle);
  }
  return failed || rounds == 0;
}
