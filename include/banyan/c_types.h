/* What all parts of the C interface use: results and element types. banyan.h includes it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BANYAN_C_TYPES_H
#define BANYAN_C_TYPES_H

/** @file c_types.h
 * @brief Results and element types of the C interface. */

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

#endif
