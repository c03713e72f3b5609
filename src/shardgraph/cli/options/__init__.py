"""Options as types: `shared.py` holds those of several commands, `train.py` the groups of `train`.

A group is a frozen dataclass whose fields are options. A command takes it as one parameter; `command.as_command` shows
its fields on the command line.
"""
