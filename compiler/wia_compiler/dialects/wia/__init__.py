"""The high level: tensor ops of the ``wia`` dialect, one declaration each."""
