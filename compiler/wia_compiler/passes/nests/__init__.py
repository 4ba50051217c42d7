"""From a fused group of tensor ops to one nest: plan its leaves, join its axes, write its IR."""
