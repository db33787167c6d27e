"""Asynchronous copies of tensors from the host to a device."""

from __future__ import annotations

import torch
from torch import Tensor


def send(values: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device. A copy from the host to a GPU is asynchronous: the host goes on meanwhile.

    ```python
    inputs = send(batch.inputs, model.output.weight.device)
    ```
    """
    if device.type != "cuda" or values.device.type == "cuda":
        return values.to(device)
    # only from pinned memory does the copy itself not wait for what the GPU is busy with
    return values.pin_memory().to(device, non_blocking=True)
