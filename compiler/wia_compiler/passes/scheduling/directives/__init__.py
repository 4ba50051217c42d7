"""The directives of leaf nests: this folder is the register, ``NAME.py`` is ``NAME``.

Each module has ``SYNTAX``, how its line is written, and ``apply(nest, directive)``, which changes
the nest in place or raises ``IllegalRewrite``.
"""
