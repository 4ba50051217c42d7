"""Text in, high-level IR out, or every fault of the text in one ``CompileError``.

``dsl.parse`` makes a ``syntax.Program`` of a ``Source`` (grammar.lark, tree_builder; recovery and
syntax_errors where the text is broken), ``import_dsl.import_program`` makes functions of it
(signatures, call_order, statements, expressions, calls). ``chapter_form`` prints them as
WIA-AI-011 does; ``vocabulary`` is the words of the language for completion and help.
"""
