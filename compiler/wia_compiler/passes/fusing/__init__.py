"""What the fusion pass decides with: where values stand, what a kernel may hold, what it costs."""
