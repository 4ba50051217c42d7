"""C++ loops over arrays to syntax trees of the language, read by tree-sitter.

``parse.parse`` takes a text: functions (``functions``), or a bare list of statements (``snippet``).
``statements`` and ``loops`` make statements of the language of it, ``expressions`` and ``calls``
its expressions with the types that C++ gives them (``types``), so that every implicit conversion
becomes a ``cast`` and what has no exact counterpart is refused (``refusals``). ``sizes`` finds how
large arrays are, ``roles`` which of them are read, written or both.
"""
