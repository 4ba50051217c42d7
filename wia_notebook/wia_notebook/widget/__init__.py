"""The explorer's widget: traits, and the files beside this one that draw them."""
