# The types of the extension.
# SPDX-License-Identifier: Apache-2.0

version: str

def library_version() -> int: ...
