"""The directives of point code: ``NAME.py`` is the form that ``NAME`` has on nests of both sorts.

A directive without a file here is applied as it is to leaf nests.
"""
