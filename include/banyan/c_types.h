/* What all parts of the C interface use: handles, results, element types, operations and
 * compression. banyan.h includes it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BANYAN_C_TYPES_H
#define BANYAN_C_TYPES_H

#include <stddef.h>
#include <stdint.h>

/** @file c_types.h
 * @brief What all parts of the C interface use. */

/** Marks a function that the shared library exports. */
#if defined(__GNUC__)
#define BANYAN_API __attribute__((visibility("default")))
#else
#define BANYAN_API
#endif

/** What became of a call. 0 to 8 are numerically NCCL's. */
typedef enum {
  BANYAN_SUCCESS = 0,
  BANYAN_ERR_CUDA = 1,             /**< the CUDA driver or runtime refused */
  BANYAN_ERR_SYSTEM = 2,           /**< the operating system refused; the text has its cause */
  BANYAN_ERR_INTERNAL = 3,         /**< a bug in this library */
  BANYAN_ERR_INVALID_ARGUMENT = 4, /**< the call is wrong; the text says which argument and why */
  BANYAN_ERR_INVALID_USAGE = 5,    /**< a right call at the wrong moment */
  BANYAN_ERR_REMOTE = 6,           /**< the caller's exchange function failed */
  BANYAN_IN_PROGRESS = 7,          /**< not done yet; not an error */
  BANYAN_ERR_TIMEOUT = 8,          /**< the deadline passed; the text names who was waited for */
  BANYAN_ERR_UNSUPPORTED = 32, /**< this build or machine cannot; the text says what is missing */
  BANYAN_ERR_MISMATCH = 33,    /**< ranks disagree about a call or a setting: field and two ranks */
  BANYAN_ERR_ABORTED = 34,     /**< this rank called #banyan_comm_abort */
  BANYAN_ERR_PEER_LOST = 35,   /**< a rank died or aborted; #banyan_comm_failed_rank names it */
  BANYAN_ERR_ACCURACY = 36,    /**< a compressed result would break its bound */
  BANYAN_ERR_CORRUPT = 37      /**< bytes from a peer or from shared memory make no sense */
} banyan_result_t;

/** Element types. 0 to 11 are numerically NCCL's. */
typedef enum {
  BANYAN_INT8 = 0,
  BANYAN_UINT8 = 1,
  BANYAN_INT32 = 2,
  BANYAN_UINT32 = 3,
  BANYAN_INT64 = 4,
  BANYAN_UINT64 = 5,
  BANYAN_FLOAT16 = 6, /**< IEEE binary16 */
  BANYAN_FLOAT32 = 7,
  BANYAN_FLOAT64 = 8,
  BANYAN_BFLOAT16 = 9,
  BANYAN_FLOAT8_E4M3 = 10, /**< no infinity: overflow becomes NaN */
  BANYAN_FLOAT8_E5M2 = 11
} banyan_datatype_t;

struct banyan_comm;
/** A communicator: the same ordered set of ranks, as each of them sees it. */
typedef struct banyan_comm* banyan_comm_t;

/** A predefined operation, or what #banyan_op_create_premulsum returned. */
typedef int banyan_op_t;
/** The predefined operations. 0 to 4 are numerically NCCL's. */
enum {
  BANYAN_SUM = 0,
  BANYAN_PROD = 1,
  BANYAN_MAX = 2,
  BANYAN_MIN = 3,
  BANYAN_AVG = 4 /**< the sum divided by the number of ranks; integers truncate towards zero */
};

/** @name How much a call may lose
 * Sums of float32, float16 and bfloat16 (SUM, AVG and premulsum) in allreduce and reduce_scatter(v)
 * may travel by a codec; everything else is exact. A #banyan_compression_t in a config is the most
 * that its calls may lose, and what they do where they have none of their own; without it it is
 * BANYAN_COMPRESS, and without that calls are exact and may ask for any codec. BANYAN_COMPRESS=off
 * wins over all of them.
 * @{ */

/** What a compressed call promises. */
typedef enum {
  BANYAN_EXACT = 0,          /**< as if uncompressed */
  BANYAN_CODEC = 1,          /**< what the named codec does */
  BANYAN_BOUND_ABSOLUTE = 2, /**< end to end over the collective, against the fp64 sum */
  BANYAN_BOUND_RELATIVE = 3  /**< likewise */
} banyan_fidelity_t;

/** How a communicator or a call may compress. */
typedef struct banyan_compression {
  size_t size; /**< of this struct */
  banyan_fidelity_t fidelity;
  double bound;
  const char* codec; /**< as BANYAN_COMPRESS: "int8", "topk:0.01", "inter=int8,intra=off", "auto" */
  size_t min_bytes;  /**< shorter vectors stay exact; 0: 4 KiB */
  uint64_t seed;     /**< of stochastic rounding and random choice */
} banyan_compression_t;
/** Exact. */
#define BANYAN_COMPRESSION_INIT \
  { sizeof(banyan_compression_t), BANYAN_EXACT, 0, NULL, 0, 0 }
/** @} */

#endif
