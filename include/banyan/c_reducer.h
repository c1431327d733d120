/* The gradient reducer, in the C interface. banyan.h includes it; reducer.h is its C++ face.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BANYAN_C_REDUCER_H
#define BANYAN_C_REDUCER_H

#include <stddef.h>
#include <stdint.h>

#include "banyan/c_types.h"

/** @file c_reducer.h
 * @brief The gradient reducer: the tensors of a model are registered once, become ready one by one,
 * and are summed while the backward pass goes on.
 *
 * A step makes every registered tensor ready once, in any order and from any thread, and waits for
 * them. Small tensors are fused into buckets, whose composition is fixed at creation, so that the
 * order in which tensors become ready never shows in the bits. A thread of the library sends them,
 * over a communicator of the reducer's own: collective calls on the caller's may come in between.
 *
 * What compression drops is kept, per tensor, and added to the gradient of the next step (error
 * feedback). A step in which any sum has a NaN or an infinity leaves what is kept as it was, on all
 * ranks.
 *
 * A failure of the reducer fails the caller's communicator, too, and the other way round: every
 * later call returns it. */

#ifdef __cplusplus
extern "C" {
#endif

/** @name The gradient reducer
 * @{ */

struct banyan_reducer;
/** A reducer of the tensors of a model. */
typedef struct banyan_reducer* banyan_reducer_t;

/** A tensor of the model. */
typedef struct {
  size_t size;                             /**< of this struct */
  uint64_t id;                             /**< stable over restarts: what is kept goes by it */
  const char* name;                        /**< matched by rules; NULL: the id, in decimal */
  size_t count;                            /**< elements */
  int dimensions;                          /**< 1 for biases and norms */
  banyan_datatype_t datatype;              /**< a floating-point type of 16 bits or more */
  const banyan_compression_t* compression; /**< NULL: the rules, then the communicator's */
} banyan_tensor_t;

/** How a reducer works. Set from #BANYAN_REDUCER_CONFIG_INIT; the same on all ranks. */
typedef struct {
  size_t size;           /**< of this struct */
  size_t bucket_bytes;   /**< 0: chosen */
  banyan_op_t op;        /**< BANYAN_AVG or BANYAN_SUM */
  int error_feedback;    /**< 1: what compression drops is kept and sent later; 0: it is lost */
  double momentum;       /**< of DGC's momentum correction, for tensors whose codec is sparse, below
                            1; 0: none */
  double clip_norm;      /**< the gradient of a compressed tensor is scaled to a norm of at most
                            clip_norm / sqrt(ranks) before it is compressed; 0: it is not */
  uint64_t warmup_steps; /**< the density of topk and randk falls to its value over so many steps */
  const char* rules;     /**< "GLOB=CODEC;...": the first that matches a tensor's name decides.
                            NULL: tensors of one dimension and those below 4,096 elements are exact,
                            and the others go as the communicator says. */
} banyan_reducer_config_t;
/** Means of exact or compressed gradients, with error feedback. */
#define BANYAN_REDUCER_CONFIG_INIT \
  { sizeof(banyan_reducer_config_t), 0, BANYAN_AVG, 1, 0, 0, 0, NULL }

/** In place of a tensor's id. */
#define BANYAN_ALL_TENSORS UINT64_MAX

/** What happened to a tensor. Counts and seconds are sums since creation. */
typedef struct {
  size_t size;         /**< of this struct */
  uint64_t steps;      /**< that were reduced */
  uint64_t bytes_raw;  /**< of its elements */
  uint64_t bytes_sent; /**< by this rank; its share of what its bucket sent */
  uint64_t nonfinite;  /**< elements that are NaN or infinite: of a compressed tensor in this rank's
                          gradient, of an exact one in the sum. Not counted where nothing is
                          compressed. */
  uint64_t fallbacks;  /**< how often it was exact for a while because too much was left */
  double error_nmse;   /**< of the last step: what this rank's messages did not say, of sums that it
                          owns, too, squared, over what it had to say, squared; sampled */
  double residual_norm; /**< of what is left after the last step, on this rank; sampled */
  double codec_seconds; /**< in which this rank filled, encoded and decoded */
  double wait_seconds;  /**< in which callers waited */
} banyan_tensor_stats_t;

/** Registers the tensors of a model. Collective: the same tensors, in the same order, with the same
 * settings on all ranks. The model's first layer comes first.
 * @param comm outlives the reducer.
 * @param tensors tensor_count of them, with different ids, none BANYAN_ALL_TENSORS.
 * @param tensor_count at least 1.
 * @param config NULL: the defaults.
 * @param[out] reducer NULL after a failure.
 * @retval BANYAN_ERR_INVALID_ARGUMENT of all wrong arguments, a tensor whose setting asks for more
 *         than the communicator accepts; the text names it.
 * @retval BANYAN_ERR_MISMATCH the ranks registered different tensors or settings. */
BANYAN_API banyan_result_t banyan_reducer_create(banyan_comm_t comm, const banyan_tensor_t* tensors,
                                                 size_t tensor_count,
                                                 const banyan_reducer_config_t* config,
                                                 banyan_reducer_t* reducer);

/** Says that this step's gradient of a tensor is there. Any thread, any order. It does not block.
 * @param reducer made by #banyan_reducer_create.
 * @param id of a tensor.
 * @param gradient the tensor's elements, reduced in place: the library's until a wait for the
 *        tensor, or for all, has returned, with a failure or not. Where this call fails, it is not
 *        taken. It may be memory of a GPU: what was enqueued for it has ended.
 * @retval BANYAN_ERR_INVALID_ARGUMENT an unknown id, NULL.
 * @retval BANYAN_ERR_INVALID_USAGE it is ready already, and no wait for it has returned since. */
BANYAN_API banyan_result_t banyan_reducer_ready(banyan_reducer_t reducer, uint64_t id,
                                                void* gradient);

/** Waits until a tensor is reduced. Any thread. A tensor that is not ready, or whose bucket is not
 * full, is waited for.
 * @param reducer made by #banyan_reducer_create.
 * @param id BANYAN_ALL_TENSORS: the whole step; at once where none is ready since the last wait.
 * @retval BANYAN_ERR_TIMEOUT it did not become ready for as long as the communicator's timeout.
 * @retval BANYAN_ERR_MISMATCH the same, while other tensors of the step are ready: the text names
 *         one that is not. */
BANYAN_API banyan_result_t banyan_reducer_wait(banyan_reducer_t reducer, uint64_t id);

/** Writes what this rank keeps between steps: residuals, momenta, and how many steps there were.
 * Between steps: no tensor is ready. After a failure it is what the last finished step left.
 * @param reducer made by #banyan_reducer_create.
 * @param[out] blob NULL: only *bytes is set.
 * @param[in,out] bytes the room in blob; afterwards the length of what is, or would be, written.
 * @retval BANYAN_ERR_INVALID_USAGE tensors are on their way. */
BANYAN_API banyan_result_t banyan_reducer_save(banyan_reducer_t reducer, void* blob, size_t* bytes);

/** Takes over what former ranks kept. Local, before the first step. The same number of ranks: each
 * its own blob. Rank r of P now takes those of the former ranks r, r + P and so on, and adds them;
 * a rank with nothing to take over need not call it.
 * @param reducer made by #banyan_reducer_create.
 * @param blobs,bytes,blob_count so many of each. Both may be NULL where that is 0.
 * @retval BANYAN_ERR_CORRUPT a blob that is cut, altered, or of another version.
 * @retval BANYAN_ERR_INVALID_ARGUMENT a blob of another model; the text says what differs.
 * @retval BANYAN_ERR_INVALID_USAGE after the first step. */
BANYAN_API banyan_result_t banyan_reducer_load(banyan_reducer_t reducer, const void* const* blobs,
                                               const size_t* bytes, size_t blob_count);

/** Tells what happened so far. Any thread.
 * @param reducer made by #banyan_reducer_create.
 * @param id BANYAN_ALL_TENSORS: sums over the tensors; the error and the norm are those of all
 *        tensors as one vector.
 * @param[out] stats with its size set. */
BANYAN_API banyan_result_t banyan_reducer_stats(banyan_reducer_t reducer, uint64_t id,
                                                banyan_tensor_stats_t* stats);

/** Ends a reducer, before its communicator is finalized. NULL is fine.
 * @retval BANYAN_ERR_INVALID_USAGE tensors are on their way, and nothing has failed: nothing is
 *         freed. Wait for all tensors, or abort the communicator. */
BANYAN_API banyan_result_t banyan_reducer_destroy(banyan_reducer_t reducer);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
