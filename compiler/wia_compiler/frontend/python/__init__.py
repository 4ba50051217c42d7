"""Python functions (``@wia.kernel``) to syntax trees of the language.

``function.read_function`` takes a function whose source Python knows (``python_source``), its
annotations (``annotations``) and what its globals stand for (``known_names``), and makes a kernel
of it: ``statements``, ``expressions``, ``indexing`` and ``calls``, where ``torch.relu``, ``np.exp``
and ``x.sum(axis=1)`` become the ops of those names (``operation_names``).
"""
