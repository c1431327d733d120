"""Banyan moves gradients between the ranks of a training job."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from banyan import _core
from banyan._errors import (
    Aborted, AccuracyError, Corrupt, CudaError, Error, InternalError, InvalidArgument, InvalidUsage, Mismatch, PeerLost,
    RemoteFailure, SystemFailure, Timeout, Unsupported)

__version__: str = _core.version

__all__ = [
    'Aborted', 'AccuracyError', 'Corrupt', 'CudaError', 'Error', 'InternalError', 'InvalidArgument', 'InvalidUsage',
    'Mismatch', 'PeerLost', 'RemoteFailure', 'SystemFailure', 'Timeout', 'Unsupported']
