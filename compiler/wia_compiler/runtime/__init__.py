"""Build, cache and launch kernels: what ``import wia_compiler`` and the command line offer."""
