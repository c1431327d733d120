"""What tests of one rank share."""
# SPDX-License-Identifier: Apache-2.0

import pytest

import banyan


@pytest.fixture
def alone():
    """A communicator of one rank."""
    with banyan.Comm.create(0, 1, banyan.unique_id(), timeout=30) as comm:
        yield comm
