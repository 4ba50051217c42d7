"""The commands of ``wia``, one a file: ``HELP``, ``EXAMPLES``, ``add_arguments`` and ``run``."""
