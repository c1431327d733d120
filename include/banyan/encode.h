/* Codecs by themselves, in the C interface. banyan.h includes it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BANYAN_ENCODE_H
#define BANYAN_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "banyan/c_types.h"

/** @file encode.h
 * @brief Codecs by themselves: for callers who move bytes their own way, or look at what a codec
 * does to their values.
 *
 * A message describes itself: a header of 64 bytes, then what compressed collectives send. It may
 * lie at any address, and so may values. What it holds is the same on every machine.
 *
 * A codec is named as in BANYAN_COMPRESS, without levels: "int8", "int4+sr", "threshold:1e-3",
 * "topk:0.01:fp16"; "off" and "auto" are none. Element types are float32, float16 and bfloat16, and
 * float64 for threshold, topk and randk, which keep values.
 *
 * The calls are local, and any thread may make them at any time. They have no communicator, so
 * `banyan_last_error(NULL)` has their text. Memory is the host's, and no two arguments overlap. A
 * failure leaves all that it would write as it was, but for a *bytes that is too small. */

#ifdef __cplusplus
extern "C" {
#endif

/** @name Codecs by themselves
 * @{ */

/** How values become a message. Set from #BANYAN_ENCODE_INIT. */
typedef struct {
  size_t size;         /**< of this struct */
  const char* codec;   /**< see above */
  uint64_t seed, step; /**< of stochastic rounding and randk: the same pair, the same bits */
  /** count floats, or NULL. In: added to the source, in fp32. Out: what the message does not carry
   * of that sum; as it was where nonfinite is not 0. */
  float* residual;
  uint64_t nonfinite; /**< out: elements that are NaN or infinite, or become infinite by rounding */
  uint64_t kept;      /**< out: elements whose values are carried; count for dense codecs */
} banyan_encode_t;
/** No codec yet. */
#define BANYAN_ENCODE_INIT \
  { sizeof(banyan_encode_t), NULL, 0, 0, NULL, 0, 0 }

/** The length of the longest message that there can be.
 * @param codec,count,datatype as for #banyan_encode.
 * @param[out] bytes the header included. */
BANYAN_API banyan_result_t banyan_encode_bound(const char* codec, size_t count,
                                               banyan_datatype_t datatype, size_t* bytes);

/** Writes a message.
 * @param[in,out] how the codec; afterwards also what it did.
 * @param source count elements. NULL is fine where count is 0.
 * @param count,datatype of the source.
 * @param[out] message at most *bytes are written.
 * @param[in,out] bytes the room in message; afterwards the length of the message.
 * @retval BANYAN_ERR_INVALID_ARGUMENT of all wrong arguments, a room that is too small: then *bytes
 *         becomes what the message takes. */
BANYAN_API banyan_result_t banyan_encode(banyan_encode_t* how, const void* source, size_t count,
                                         banyan_datatype_t datatype, void* message, size_t* bytes);

/** Reads a message. A sparse one gives zeros for what it does not carry.
 * @param message anybody's bytes: nothing in them is believed.
 * @param bytes the length of the message, exactly.
 * @param[out] target count elements. NULL is fine where count is 0.
 * @param count as it was encoded.
 * @param datatype of the target, whatever the source's was; values are rounded to it once.
 * @retval BANYAN_ERR_CORRUPT a message that is cut, altered, of another count or of no codec here.
 */
BANYAN_API banyan_result_t banyan_decode(const void* message, size_t bytes, void* target,
                                         size_t count, banyan_datatype_t datatype);

/** As #banyan_decode, but added to target, in fp32 (float64: in fp64), and rounded once. */
BANYAN_API banyan_result_t banyan_decode_add(const void* message, size_t bytes, void* target,
                                             size_t count, banyan_datatype_t datatype);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
