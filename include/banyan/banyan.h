/* The C interface of Banyan: communicators, collectives, requests, groups. C99 and C++11.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BANYAN_BANYAN_H
#define BANYAN_BANYAN_H

#include <stddef.h>
#include <stdint.h>

#include "banyan/c_reducer.h"
#include "banyan/c_types.h"
#include "banyan/encode.h"
#include "banyan/version.h"

/** @file banyan.h
 * @brief The C interface.
 * @section failure Failure
 * Every function returns a #banyan_result_t unless it says otherwise, and #banyan_last_error gives
 * the sentence that belongs to it. Two kinds of failure:
 * - A wrong argument or wrong use (`INVALID_ARGUMENT`, `INVALID_USAGE`, `UNSUPPORTED`) is local: it
 *   moves nothing and never harms the communicator.
 * - `MISMATCH`, `TIMEOUT`, `PEER_LOST`, `ABORTED`, `SYSTEM` and `CORRUPT` fail the communicator:
 *   every later call returns the same result at once, on every surviving rank the same, and
 *   #banyan_comm_failed_rank names the same rank. What is left to do is #banyan_comm_destroy.
 *
 * @section threads Threads
 * One thread at a time uses a communicator, its requests and its operations. #banyan_comm_abort,
 * #banyan_comm_async_error and #banyan_last_error may be called by any thread at any time.
 * Different communicators are independent.
 *
 * @section memory Memory
 * Counts are elements of the datatype, sizes named `bytes` are bytes, times are seconds. Buffers
 * are the caller's throughout, aligned or not. A blocking call is done with them when it returns, a
 * request when it completes. Handles are opaque; a destroyed one is recognised
 * (`INVALID_ARGUMENT`). They belong to the process that made them: in a child of fork() a call on
 * one is `INVALID_USAGE`; it may make communicators of its own.
 *
 * Buffers are memory of the host or, where the process has loaded the CUDA driver, of GPUs, which
 * is copied through memory of the host. Ranks may differ in that, and so may the buffers of a call.
 * A blocking call knows of no stream: what was enqueued for its buffers has ended before. The same
 * goes for scalars and for what #banyan_encode and its kin are given. Lists of counts are memory of
 * the host.
 *
 * @section structs Structs
 * A struct that the caller fills starts with `size` and is set from its initializer. A smaller one,
 * of an older header, is completed with defaults; a larger one is accepted only where its unknown
 * tail is zero. A null config means all defaults. `size` 0 is `INVALID_ARGUMENT`, and so is a
 * timeout that is negative or NaN; infinity means no deadline.
 *
 * @section numbers Numbers
 * All ranks end with identical bits. Sums and products of 16- and 8-bit floating types are
 * accumulated in fp32 and rounded once, to nearest even; overflow becomes infinity (NaN in e4m3).
 * Integers wrap. Minimum and maximum are IEEE 754-2019's: NaN wins, -0 is less than +0.
 */

#ifdef __cplusplus
extern "C" {
#endif

/** @name Results and versions
 * @{ */

/** The name of a result, such as "invalid argument". Never NULL, static; any thread. */
BANYAN_API const char* banyan_result_string(banyan_result_t result);

/** What went wrong last, with the values involved and the remedy.
 * @param comm whose failure, or later error of this thread; NULL: this thread's last error.
 * @return a sentence, empty if nothing went wrong. It is the calling thread's copy and stays valid
 *         until that thread calls this function again. Never NULL; any thread, any time. */
BANYAN_API const char* banyan_last_error(banyan_comm_t comm);

/** The version of the library in use: 10000 * major + 100 * minor + patch. */
BANYAN_API int banyan_version(void);
/** @}
 * @name Data types and operations
 * @{ */

/** @}
 * @name Making and ending communicators
 * @{ */

/** Address and secret of a rendezvous, as plain bytes to be passed to the other ranks. Whoever has
 * it can join, so pass it over a channel that strangers cannot read. */
typedef struct {
  char bytes[128];
} banyan_unique_id_t;

/** What may be assumed about the bits of a result. */
typedef enum {
  BANYAN_DETERMINISM_DEFAULT = 0, /**< the library's default, which is `BANYAN_DETERMINISTIC` */
  BANYAN_DETERMINISTIC = 1,       /**< same ranks, machine and input: same bits, run after run */
  BANYAN_INVARIANT = 2 /**< sums of floats: also for any placement, algorithm, cut into calls */
} banyan_determinism_t;
struct banyan_compression;

/** Settings of a communicator. Set from #BANYAN_CONFIG_INIT; the same on all ranks. */
typedef struct {
  size_t size;            /**< of this struct */
  const char* name;       /**< appears in logs and errors, copied; NULL: numbered */
  const char* transports; /**< as BANYAN_TRANSPORTS; NULL: the environment, then automatic */
  double timeout_s;       /**< of each operation; 0: BANYAN_TIMEOUT, then 30 */
  double init_timeout_s;  /**< of meeting; 0: BANYAN_INIT_TIMEOUT, then 60 */
  banyan_determinism_t determinism;
  const struct banyan_compression* compression; /**< NULL: exact; see below */
} banyan_config_t;
/** All defaults. */
#define BANYAN_CONFIG_INIT \
  { sizeof(banyan_config_t), NULL, NULL, 0, 0, BANYAN_DETERMINISM_DEFAULT, NULL }

/** Opens a rendezvous in this process, on loopback or the interface of BANYAN_SOCKET_IFNAME.
 * It serves one #banyan_comm_init of all ranks and closes by itself: when they have met, or after
 * the init timeout. This process must live until then.
 * @param[out] id what the other ranks need.
 * @retval BANYAN_ERR_SYSTEM no socket, port or entropy to be had. */
BANYAN_API banyan_result_t banyan_get_unique_id(banyan_unique_id_t* id);

/** Meets the other ranks. Collective: all ranks call it with the same id and rank_count.
 * @param[out] comm the communicator; NULL after a failure.
 * @param rank_count number of ranks, from 1.
 * @param id from #banyan_get_unique_id of one of them; a second use is `INVALID_USAGE`.
 * @param rank of this caller, 0 to rank_count - 1. Ranks may be threads of one process.
 * @param config may be NULL.
 * @retval BANYAN_ERR_MISMATCH another rank_count, a duplicate rank, or a setting that differs.
 * @retval BANYAN_ERR_TIMEOUT names the ranks that have not come. */
BANYAN_API banyan_result_t banyan_comm_init(banyan_comm_t* comm, int rank_count,
                                            const banyan_unique_id_t* id, int rank,
                                            const banyan_config_t* config);

/** Meets the other ranks as the launcher says: torchrun, Open MPI, MPICH (Hydra), PMIx, Slurm, or
 * BANYAN_RANK, BANYAN_SIZE and BANYAN_ADDRESS. Collective; may be called again, by all ranks each
 * time. Otherwise as #banyan_comm_init.
 * @retval BANYAN_ERR_INVALID_USAGE no launcher's variables are set.
 * @retval BANYAN_ERR_INVALID_ARGUMENT one of them is malformed; the text names it. */
BANYAN_API banyan_result_t banyan_comm_init_env(banyan_comm_t* comm, const banyan_config_t* config);

/** The caller's own way to exchange bytes: MPI, a key-value store, ... */
typedef struct {
  size_t size; /**< of this struct */
  int rank, rank_count;
  /** Gathers `bytes` from every rank in recv, in rank order. Blocking; called by all ranks in the
   * same order, only during #banyan_comm_init_exchange. Returns 0 for success. */
  int (*allgather)(const void* send, void* recv, size_t bytes, void* context);
  void* context; /**< passed on as it is */
} banyan_exchange_t;

/** Meets the other ranks through the caller's function, which must reach members only: keys travel
 * over it. Otherwise as #banyan_comm_init.
 * @retval BANYAN_ERR_REMOTE the function returned something else than 0. */
BANYAN_API banyan_result_t banyan_comm_init_exchange(banyan_comm_t* comm,
                                                     const banyan_exchange_t* exchange,
                                                     const banyan_config_t* config);

/** The colour of a rank that joins no new communicator. */
#define BANYAN_NO_COLOR (-1)
/** Makes a communicator of the ranks that give the same colour. Collective over comm.
 * @param comm the parent; it stays usable.
 * @param color at least 0, or #BANYAN_NO_COLOR: then *child becomes NULL.
 * @param key orders the new ranks; equal keys keep the order of the parent.
 * @param[out] child independent of its parent: each is destroyed by itself. NULL after a failure.
 * @param config of the child; NULL: all defaults. */
BANYAN_API banyan_result_t banyan_comm_split(banyan_comm_t comm, int color, int key,
                                             banyan_comm_t* child, const banyan_config_t* config);

/** This rank's number in comm, from 0. Local. */
BANYAN_API banyan_result_t banyan_comm_rank(banyan_comm_t comm, int* rank);
/** The number of ranks of comm. Local. */
BANYAN_API banyan_result_t banyan_comm_size(banyan_comm_t comm, int* size);

/** Ends in good order. Collective: completes what is in flight; then only destroy is left.
 * @retval BANYAN_ERR_MISMATCH another rank is in a collective. */
BANYAN_API banyan_result_t banyan_comm_finalize(banyan_comm_t comm);

/** Frees this rank's part, and its memory from #banyan_mem_alloc. Local.
 * @param comm finalized, aborted or failed; NULL is fine.
 * @retval BANYAN_ERR_INVALID_USAGE not freed: it is none of these, has requests in flight (wait for
 *         or destroy them), or for two seconds a thread in a call on it. */
BANYAN_API banyan_result_t banyan_comm_destroy(banyan_comm_t comm);

/** Gives up: calls in flight here return `ABORTED`, those of the other ranks `PEER_LOST`. Local,
 * returns within 10 ms; any thread, at any time, repeatedly. Memory is freed by destroy. */
BANYAN_API banyan_result_t banyan_comm_abort(banyan_comm_t comm);

/** The failure of comm, also one that no call has returned yet. Local; any thread. */
BANYAN_API banyan_result_t banyan_comm_async_error(banyan_comm_t comm, banyan_result_t* error);

/** The rank that made comm fail, numbered in comm; -1: none, or none can be named. Local. */
BANYAN_API banyan_result_t banyan_comm_failed_rank(banyan_comm_t comm, int* rank);
/** @}
 * @name Memory and operations
 * @{ */

/** Memory that the ranks of this host read and write in place; any other memory works too, with a
 * copy more. Local; touches every page. Aligned to 64 bytes, freed by #banyan_mem_free or comm.
 * @retval BANYAN_ERR_SYSTEM there is not so much; comm does not fail.
 * @retval BANYAN_ERR_UNSUPPORTED no transport of comm has such memory. */
BANYAN_API banyan_result_t banyan_mem_alloc(banyan_comm_t comm, void** memory, size_t bytes);
/** Frees memory of #banyan_mem_alloc, which is in no call; NULL is fine. Local. */
BANYAN_API banyan_result_t banyan_mem_free(banyan_comm_t comm, void* memory);

/** Makes the operation that sums scalar * x. Local, but every rank makes and uses one.
 * @param comm the only communicator that may use it.
 * @param scalar one element of the type, read at once; ranks may differ.
 * @param datatype the only type it works on.
 * @param[out] op destroyed by #banyan_op_destroy, or with comm. */
BANYAN_API banyan_result_t banyan_op_create_premulsum(banyan_comm_t comm, const void* scalar,
                                                      banyan_datatype_t datatype, banyan_op_t* op);
/** @retval BANYAN_ERR_INVALID_ARGUMENT op is predefined, unknown, or already destroyed. */
BANYAN_API banyan_result_t banyan_op_destroy(banyan_comm_t comm, banyan_op_t op);
/** @}
 * @name Collectives
 * Blocking. All ranks make the same calls in the same order, with the same counts, types,
 * operations and roots; where they differ, every rank gets `MISMATCH` before memory is written. P
 * is the number of ranks. A count of 0 is a call like any other. In place: send == recv (allreduce,
 * reduce, broadcast, alltoall), send == recv + rank * count (allgather, gather), recv == send +
 * rank * count (reduce_scatter, scatter); any other overlap is `INVALID_ARGUMENT`. Where only the
 * root has a buffer, it is not touched on the others and may be NULL there.
 * @{ */

/** recv[i] = op over all ranks of send[i], on every rank. Both hold count elements. */
BANYAN_API banyan_result_t banyan_allreduce(const void* send, void* recv, size_t count,
                                            banyan_datatype_t datatype, banyan_op_t op,
                                            banyan_comm_t comm);

/** As #banyan_allreduce, but only root's recv is written. */
BANYAN_API banyan_result_t banyan_reduce(const void* send, void* recv, size_t count,
                                         banyan_datatype_t datatype, banyan_op_t op, int root,
                                         banyan_comm_t comm);

/** Copies root's send (count elements) to every rank's recv. send matters at root only. */
BANYAN_API banyan_result_t banyan_broadcast(const void* send, void* recv, size_t count,
                                            banyan_datatype_t datatype, int root,
                                            banyan_comm_t comm);

/** Every rank's send (send_count elements), in rank order, in every recv (P * send_count). */
BANYAN_API banyan_result_t banyan_allgather(const void* send, void* recv, size_t send_count,
                                            banyan_datatype_t datatype, banyan_comm_t comm);

/** As #banyan_allgather, with a count for each rank.
 * @param send,send_count what this rank gives; send_count == recv_counts[rank]. In place: send ==
 *        recv + recv_displacements[rank].
 * @param recv written where the blocks lie; gaps keep their bytes.
 * @param recv_counts P counts, the same on all ranks.
 * @param recv_displacements P places in recv, in elements; NULL: packed in rank order.
 * @param datatype,comm as in every call. */
BANYAN_API banyan_result_t banyan_allgatherv(const void* send, size_t send_count, void* recv,
                                             const size_t* recv_counts,
                                             const size_t* recv_displacements,
                                             banyan_datatype_t datatype, banyan_comm_t comm);

/** Reduces P blocks of recv_count elements; block r, reduced, goes to rank r's recv. send holds
 * P * recv_count elements; in place the other blocks keep their bytes. */
BANYAN_API banyan_result_t banyan_reduce_scatter(const void* send, void* recv, size_t recv_count,
                                                 banyan_datatype_t datatype, banyan_op_t op,
                                                 banyan_comm_t comm);

/** As #banyan_reduce_scatter, with a count for each rank: recv_counts holds P counts, the same on
 * all ranks, and the blocks lie packed in send. In place: recv is this rank's block. */
BANYAN_API banyan_result_t banyan_reduce_scatterv(const void* send, void* recv,
                                                  const size_t* recv_counts,
                                                  banyan_datatype_t datatype, banyan_op_t op,
                                                  banyan_comm_t comm);

/** Block r of send goes to rank r, where it becomes block `rank` of recv. Both hold P *
 * count_per_rank elements. */
BANYAN_API banyan_result_t banyan_alltoall(const void* send, void* recv, size_t count_per_rank,
                                           banyan_datatype_t datatype, banyan_comm_t comm);

/** As #banyan_alltoall, with counts. There is no in-place form.
 * @param send,recv blocks at their displacements; gaps in recv keep their bytes.
 * @param send_counts,recv_counts P counts each: rank a's send_counts[b] equals rank b's
 *        recv_counts[a].
 * @param send_displacements,recv_displacements P places in elements; NULL: packed in rank order.
 * @param datatype,comm as in every call. */
BANYAN_API banyan_result_t banyan_alltoallv(const void* send, const size_t* send_counts,
                                            const size_t* send_displacements, void* recv,
                                            const size_t* recv_counts,
                                            const size_t* recv_displacements,
                                            banyan_datatype_t datatype, banyan_comm_t comm);

/** As #banyan_allgather, but only root's recv is written. */
BANYAN_API banyan_result_t banyan_gather(const void* send, void* recv, size_t send_count,
                                         banyan_datatype_t datatype, int root, banyan_comm_t comm);

/** Block r of root's send (P * recv_count elements) goes to rank r's recv (recv_count). */
BANYAN_API banyan_result_t banyan_scatter(const void* send, void* recv, size_t recv_count,
                                          banyan_datatype_t datatype, int root, banyan_comm_t comm);

/** Returns when all ranks have called it. */
BANYAN_API banyan_result_t banyan_barrier(banyan_comm_t comm);

/** Sends to one rank, which receives the same count and type; returns when it has accepted them.
 * The n-th send to a rank meets its n-th receive from here. To oneself: inside a group only. */
BANYAN_API banyan_result_t banyan_send(const void* send, size_t count, banyan_datatype_t datatype,
                                       int peer, banyan_comm_t comm);
/** Receives from one rank; see #banyan_send. */
BANYAN_API banyan_result_t banyan_recv(void* recv, size_t count, banyan_datatype_t datatype,
                                       int peer, banyan_comm_t comm);
/** @}
 * @name Groups
 * @{ */

/** Begins a group: this thread's calls until #banyan_group_end are issued together and complete
 * there - several sends and receives, several communicators. Nested pairs count. Init, split,
 * finalize and wait inside are `INVALID_USAGE`; #banyan_request_start joins the group. */
BANYAN_API banyan_result_t banyan_group_start(void);
/** Ends a group and waits for its calls. The first error that a function has returned inside is
 * returned here again, and nothing of the group has moved.
 * @retval BANYAN_ERR_INVALID_USAGE there was no start. */
BANYAN_API banyan_result_t banyan_group_end(void);
/** @}
 * @name Requests: non-blocking, persistent, with options
 * @{ */

/** What a request does. */
typedef enum {
  BANYAN_ALLREDUCE,
  BANYAN_REDUCE,
  BANYAN_BROADCAST,
  BANYAN_ALLGATHER,
  BANYAN_ALLGATHERV,
  BANYAN_REDUCE_SCATTER,
  BANYAN_REDUCE_SCATTERV,
  BANYAN_ALLTOALL,
  BANYAN_ALLTOALLV,
  BANYAN_GATHER,
  BANYAN_SCATTER,
  BANYAN_BARRIER,
  BANYAN_SEND,
  BANYAN_RECV
} banyan_collective_t;

/** A call as a value, set from #BANYAN_CALL_INIT. Fields that its collective lacks are ignored. */
typedef struct {
  size_t size; /**< of this struct */
  banyan_collective_t collective;
  const void* send;
  void* recv;
  size_t count; /**< as the blocking call has it */
  const size_t *send_counts, *send_displacements, *recv_counts, *recv_displacements; /**< copied */
  banyan_datatype_t datatype;
  banyan_op_t op;
  int root;                                     /**< or the peer of send and recv */
  double timeout_s;                             /**< 0: the communicator's */
  const struct banyan_compression* compression; /**< NULL: the communicator's; see below */
  const char* algorithm; /**< as BANYAN_ALGO, parameters too; the same on all ranks; NULL: chosen */
  int on_stream;         /**< 1: each start of the request takes its turn on `stream`; see there */
  void* stream;          /**< a cudaStream_t, which outlives the request; NULL is the default stream
                              of the thread's context. The call begins when the stream gets to its
                              start, and what is enqueued behind that waits until the call has ended,
                              well or not; whoever waits for the stream need not wait for the
                              request. `UNSUPPORTED` in a process without the CUDA driver; a start
                              is `INVALID_USAGE` while the stream is being captured */
} banyan_call_t;
/** An allreduce of no floats. */
#define BANYAN_CALL_INIT                                                            \
  {                                                                                 \
    sizeof(banyan_call_t), BANYAN_ALLREDUCE, NULL, NULL, 0, NULL, NULL, NULL, NULL, \
        BANYAN_FLOAT32, BANYAN_SUM, 0, 0, NULL, NULL, 0, NULL                       \
  }

/** A call that can be started again and again. */
typedef struct banyan_request* banyan_request_t;

/** Checks and prepares a call. Local: nothing moves. Buffers stay the caller's, the lists of counts
 * are copied. A communicator that has failed refuses it once a call has said so; before, the start
 * says it.
 * @param comm must outlive the request.
 * @param call may be changed afterwards.
 * @param[out] request destroyed by #banyan_request_destroy; NULL after a failure. */
BANYAN_API banyan_result_t banyan_request_create(banyan_comm_t comm, const banyan_call_t* call,
                                                 banyan_request_t* request);
/** Starts it, after creation or after each completion; returns at once. Starts count as calls: all
 * ranks start in the same order. Buffers are in use until completion.
 * @retval BANYAN_ERR_INVALID_USAGE it is in flight. */
BANYAN_API banyan_result_t banyan_request_start(banyan_request_t request);
/** Makes progress and looks.
 * @param request started at least once.
 * @param[out] done 1: complete, and what is returned is the operation's result; 0: not yet, and
 *             `BANYAN_SUCCESS` is returned. */
BANYAN_API banyan_result_t banyan_request_test(banyan_request_t request, int* done);
/** Waits until it is complete and returns the operation's result; again the same after that.
 * @retval BANYAN_ERR_INVALID_USAGE it was never started. */
BANYAN_API banyan_result_t banyan_request_wait(banyan_request_t request);
/** @retval BANYAN_ERR_INVALID_USAGE it is in flight, and its communicator has not failed. */
BANYAN_API banyan_result_t banyan_request_destroy(banyan_request_t request);

/** What would be done for this call: every candidate, with its predicted and measured time where
 * there is one, and why one was left out. Local.
 * @param comm,call as for #banyan_request_create.
 * @param[out] text at most *bytes of it, terminated; NULL where *bytes is 0.
 * @param[in,out] bytes the room in text; afterwards what all of it takes, terminator included. */
BANYAN_API banyan_result_t banyan_explain(banyan_comm_t comm, const banyan_call_t* call, char* text,
                                          size_t* bytes);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
