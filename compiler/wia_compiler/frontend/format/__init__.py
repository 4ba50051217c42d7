"""The formatter: ``formatter.format_text`` lays a text of the language out anew.

``tokens`` reads words and comments, ``lines`` groups them into the lines that belong together,
``spacing`` says where a space stands between two words, ``layout`` breaks what is too long. The
words and comments of a text stay what they are and in their order; that is checked at the end.
"""
