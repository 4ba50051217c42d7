"""Views: pure functions from the record of a compilation to text, HTML and SVG."""
