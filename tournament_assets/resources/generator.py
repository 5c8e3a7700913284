"""The GPU behind generation, with Dagster configuration around it."""

import dagster as dg


class GeneratorResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """Generates responses on the GPU if there is one, else on the CPU.

    Attributes:
        device: `auto`, or a torch device such as `cuda:1` or `cpu`.
    """

    device: str = "auto"
