"""A notebook that shows a kernel from text to machine."""
