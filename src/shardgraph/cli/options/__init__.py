"""Options as types: `shared.py` holds those of several commands, `train.py` the groups of `train`; `config_file.py`
reads options from a file.

A group is a frozen dataclass whose fields are options. A command takes it as one parameter; `command.as_command` shows
its fields on the command line.
"""
