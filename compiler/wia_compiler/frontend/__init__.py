"""Text in, high-level IR out, or every fault of the text in one ``CompileError``.

``dsl.parse`` makes a ``syntax.Program`` of a ``Source`` (grammar.lark, tree_builder, line_builder;
recovery and syntax_errors where the text is broken), ``import_dsl.import_program`` makes functions
of it: signatures and call_order for all, statements, control_flow and loop_statements for kernels,
notation and labels for funcs, expressions, names, calls and slices for both; patterns and snippets
beside them, bound_names for what ``bindings=`` gives. ``python`` and ``cpp`` make the same trees of
Python functions and C++ loops. ``chapter_form`` prints functions as WIA-AI-011 does; ``vocabulary``
is the words of the language for completion and help; ``format`` lays texts out anew.
"""
