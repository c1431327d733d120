// Sizes, data, warm-up, timing and checks, step for step as bench/perf does them.
// SPDX-License-Identifier: Apache-2.0

#include "bench/peers/peer.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum {
  kSmall = 8192,  // bytes; OSU's border between many and few iterations
  kTable = 8192,  // floats: 32 KiB, as much as banyan_perf's own table takes of the cache
  kPage = 4096,
  kStride = 97,            // of what is checked in large buffers
  kCheckedWhole = 262144,  // floats
};

static const char* const names[] = {"allreduce", "allgather", "reduce_scatter", "broadcast",
                                    "alltoall",  "barrier",   "latency",        "bw"};

static bool is_pair(enum PeerPattern pattern) {
  return pattern == kPeerLatency || pattern == kPeerBandwidth;
}

static bool parse_number(const char** text, size_t* value) {
  char* end = NULL;
  if (**text < '0' || **text > '9') return false;
  *value = strtoull(*text, &end, 10);
  const char* units = "KMG";
  const char* unit = *end != '\0' ? strchr(units, *end) : NULL;
  if (unit != NULL) {
    *value <<= 10 * (unit - units + 1);
    ++end;
  }
  *text = end;
  return true;
}

static bool parse_sizes(const char* text, struct PeerOptions* options) {
  if (!parse_number(&text, &options->least_bytes)) return false;
  options->most_bytes = options->least_bytes;
  if (*text == ':') {
    ++text;
    if (!parse_number(&text, &options->most_bytes)) return false;
  }
  return *text == '\0' && options->least_bytes <= options->most_bytes;
}

static bool parse_count(const char* text, long* value) {
  size_t number = 0;
  if (!parse_number(&text, &number) || *text != '\0') return false;
  *value = (long)number;
  return true;
}

static bool parse_pattern(const char* text, enum PeerPattern* pattern) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (strcmp(text, names[i]) != 0) continue;
    *pattern = (enum PeerPattern)i;
    return true;
  }
  return false;
}

bool peer_parse(int argc, char** argv, struct PeerOptions* options) {
  *options = (struct PeerOptions){
      .least_bytes = 4, .most_bytes = (size_t)64 << 20, .iterations = -1, .warm_up = -1};
  bool right = argc > 1 && parse_pattern(argv[1], &options->pattern);
  for (int i = 2; i < argc && right; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--fresh") == 0) {
      options->fresh = true;
      continue;
    }
    if (strcmp(argv[i], "-m") == 0)
      right = parse_sizes(value, options);
    else if (strcmp(argv[i], "-i") == 0)
      right = parse_count(value, &options->iterations) && options->iterations > 0;
    else if (strcmp(argv[i], "-x") == 0)
      right = parse_count(value, &options->warm_up);
    else
      right = false;
    ++i;
  }
  if (right) return true;
  fprintf(stderr,
          "usage: %s COLLECTIVE [-m MIN:MAX] [-i N] [-x N] [--fresh]\nCOLLECTIVE:", argv[0]);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) fprintf(stderr, " %s", names[i]);
  fprintf(stderr, "\n");
  return false;
}

static float table[kTable];

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static void fill_table(void) {
  for (size_t i = 0; i < kTable; ++i) table[i] = (float)(mix(i) & 255);
}

static float value_at(int rank, size_t index) {
  return table[mix(((uint64_t)rank + 1) * 0x9e3779b97f4a7c15 + index) % kTable];
}

struct lengths {
  size_t input, output;  // of this rank, in floats
};

static struct lengths lengths_of(enum PeerPattern pattern, int rank, int size, size_t count) {
  const size_t all = count * (size_t)size;
  switch (pattern) {
    case kPeerAllreduce: return (struct lengths){count, count};
    case kPeerAllgather: return (struct lengths){count, all};
    case kPeerReduceScatter: return (struct lengths){all, count};
    case kPeerBroadcast: return (struct lengths){rank == 0 ? count : 0, rank == 0 ? 0 : count};
    case kPeerAlltoall: return (struct lengths){all, all};
    case kPeerBarrier: return (struct lengths){0, 0};
    case kPeerLatency: return rank < 2 ? (struct lengths){count, count} : (struct lengths){0, 0};
    case kPeerBandwidth: return (struct lengths){rank == 0 ? count : 0, rank == 1 ? count : 0};
  }
  return (struct lengths){0, 0};
}

static void fill(float* floats, size_t count, float value) {
  for (size_t i = 0; i < count; ++i) floats[i] = value;
}

static void write_input(const struct Peer* peer, const struct PeerCase* a_case) {
  const size_t input = lengths_of(a_case->pattern, peer->rank, peer->size, a_case->count).input;
  if (a_case->send == NULL) return;
  for (size_t i = 0; i < input; ++i) a_case->send[i] = value_at(peer->rank, i);
}

static float expected_at(const struct Peer* peer, const struct PeerCase* a_case, size_t index) {
  const size_t mine = (size_t)peer->rank * a_case->count;
  float total = 0;
  switch (a_case->pattern) {
    case kPeerAllreduce:
    case kPeerReduceScatter:
      if (a_case->pattern == kPeerReduceScatter) index += mine;
      for (int rank = 0; rank < peer->size; ++rank) total += value_at(rank, index);
      return total;
    case kPeerAllgather: return value_at((int)(index / a_case->count), index % a_case->count);
    case kPeerAlltoall: return value_at((int)(index / a_case->count), mine + index % a_case->count);
    case kPeerBroadcast: return value_at(0, index);
    case kPeerBarrier: return 0;
    case kPeerLatency:
    case kPeerBandwidth: return value_at(1 - peer->rank, index);
  }
  return 0;
}

// One call on known inputs. `wrong` is the number of wrong elements on all ranks.
static int check(const struct Peer* peer, const struct PeerCase* a_case, double* wrong) {
  const struct lengths lengths = lengths_of(a_case->pattern, peer->rank, peer->size, a_case->count);
  if (a_case->recv != NULL) fill(a_case->recv, lengths.output, -1);  // which no result is
  write_input(peer, a_case);
  if (peer->barrier(peer->self) != 0) return 1;
  const bool takes_part = !is_pair(a_case->pattern) || peer->rank < 2;
  if (takes_part && peer->run(peer->self, a_case) != 0) return 1;
  const size_t stride = lengths.output > kCheckedWhole ? kStride : 1;
  double found = 0;
  for (size_t i = 0; a_case->recv != NULL && i < lengths.output; i += stride)
    found += a_case->recv[i] != expected_at(peer, a_case, i);
  if (peer->sum(peer->self, &found) != 0) return 1;
  *wrong += found;
  return 0;
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int run_loop(const struct Peer* peer, const struct PeerOptions* options,
                    const struct PeerCase* a_case, long iterations, double* mean) {
  const bool pair = is_pair(a_case->pattern);
  // As OSU: ranks start every iteration of a collective together, and pairs follow each other.
  const bool together = pair ? options->fresh : a_case->pattern != kPeerBarrier;
  const bool takes_part = !pair || peer->rank < 2;
  if (!together && !takes_part) return 0;
  double total = 0;
  for (long i = 0; i < iterations; ++i) {
    if (options->fresh) write_input(peer, a_case);
    if (together && peer->barrier(peer->self) != 0) return 1;
    const double begin = now_us();
    if (takes_part && peer->run(peer->self, a_case) != 0) return 1;
    total += now_us() - begin;
  }
  const double parts = a_case->pattern == kPeerLatency ? 2 : pair ? kPeerWindow : 1;
  *mean = iterations > 0 ? total / (double)iterations / parts : 0;
  return 0;
}

static void print_row(const struct PeerCase* a_case, double latency) {
  const double bytes = (double)(a_case->count * sizeof(float));
  printf("%.0f,%.4f", bytes, latency);
  if (a_case->pattern == kPeerBandwidth) printf(",%.2f", bytes / latency);
  printf("\n");
  fflush(stdout);
}

static int measure(const struct Peer* peer, const struct PeerOptions* options,
                   const struct PeerCase* a_case) {
  const bool small = a_case->count * sizeof(float) <= kSmall;
  const long iterations = options->iterations >= 0 ? options->iterations : small ? 1000 : 100;
  const long warm_up = options->warm_up >= 0 ? options->warm_up : small ? 200 : 10;
  double wrong = 0;
  double mean = 0;
  if (peer->prepare != NULL && peer->prepare(peer->self, a_case) != 0) return 1;
  if (check(peer, a_case, &wrong) != 0) return 1;
  write_input(peer, a_case);
  if (peer->barrier(peer->self) != 0) return 1;
  if (run_loop(peer, options, a_case, warm_up, &mean) != 0) return 1;
  if (run_loop(peer, options, a_case, iterations, &mean) != 0) return 1;
  if (peer->barrier(peer->self) != 0) return 1;
  if (check(peer, a_case, &wrong) != 0) return 1;
  double latency = mean;
  if (peer->sum(peer->self, &latency) != 0) return 1;
  // Between two ranks, rank 0 has the watch.
  latency = is_pair(a_case->pattern) ? mean : latency / peer->size;
  if (wrong != 0) {
    if (peer->rank == 0)
      fprintf(stderr, "%.0f wrong elements at %zu floats\n", wrong, a_case->count);
    return 1;
  }
  if (peer->rank == 0) print_row(a_case, latency);
  return 0;
}

// Begins at a page, and every page is touched.
static float* allocate(size_t floats) {
  void* found = NULL;
  if (floats == 0) return NULL;
  if (posix_memalign(&found, kPage, floats * sizeof(float)) != 0) return NULL;
  fill(found, floats, 0);
  return found;
}

static size_t count_of(size_t bytes) {
  return bytes < sizeof(float) ? 1 : bytes / sizeof(float);
}

static int sweep(const struct Peer* peer, const struct PeerOptions* options, float* send,
                 float* recv) {
  if (options->pattern == kPeerBarrier)
    return measure(peer, options, &(struct PeerCase){kPeerBarrier, NULL, NULL, 0});
  size_t last = 0;
  for (size_t bytes = options->least_bytes > 0 ? options->least_bytes : 1;
       bytes <= options->most_bytes; bytes *= 2) {
    const struct PeerCase a_case = {options->pattern, send, recv, count_of(bytes)};
    if (a_case.count == last) continue;
    last = a_case.count;
    if (measure(peer, options, &a_case) != 0) return 1;
  }
  return 0;
}

int peer_run(const struct Peer* peer, const struct PeerOptions* options) {
  // Nobody is left behind when whoever started the ranks is ended.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (is_pair(options->pattern) && peer->size < 2) {
    fprintf(stderr, "%s is between two ranks\n", names[options->pattern]);
    return 1;
  }
  fill_table();
  const struct lengths most =
      lengths_of(options->pattern, peer->rank, peer->size, count_of(options->most_bytes));
  const size_t larger = most.input > most.output ? most.input : most.output;
  const size_t first_length = peer->in_place ? larger : most.input;
  const size_t second_length = peer->in_place ? 0 : most.output;
  float* first = allocate(first_length);
  float* second = allocate(second_length);
  int status = 1;
  if ((first == NULL && first_length != 0) || (second == NULL && second_length != 0)) {
    fprintf(stderr, "no memory for messages of %zu bytes\n", options->most_bytes);
  } else {
    if (peer->rank == 0)
      printf("bytes,latency_us%s\n", options->pattern == kPeerBandwidth ? ",MBps" : "");
    status = sweep(peer, options, first, peer->in_place ? first : second);
  }
  free(second);
  free(first);
  return status;
}
