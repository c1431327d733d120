/* The version of the interface that these headers declare; banyan.h includes it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef BANYAN_VERSION_H
#define BANYAN_VERSION_H

#define BANYAN_VERSION_MAJOR 0
#define BANYAN_VERSION_MINOR 1
#define BANYAN_VERSION_PATCH 0
/** 10000 * major + 100 * minor + patch. What the program was compiled with; #banyan_version says
 * what it runs with. */
#define BANYAN_VERSION \
  (10000 * BANYAN_VERSION_MAJOR + 100 * BANYAN_VERSION_MINOR + BANYAN_VERSION_PATCH)

#endif
