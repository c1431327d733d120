/* The file that nvcc has made, as read-only data.
   SPDX-License-Identifier: Apache-2.0 */

        .section .rodata.banyan_cuda_fatbin, "a"
        .balign 64
        .globl banyan_cuda_fatbin
        .hidden banyan_cuda_fatbin
        .type banyan_cuda_fatbin, %object
banyan_cuda_fatbin:
        .incbin BANYAN_CUDA_FATBIN
        .size banyan_cuda_fatbin, . - banyan_cuda_fatbin

        .section .note.GNU-stack, "", %progbits
