"""The command line: it parses options, calls the library and prints the result.

    main.py      the app: every command with its panel of the help, --version and --debug
    command.py   how a command runs: option groups, opening a workspace, printing, errors and exit codes
    reading.py   reads the data files that `add` and `predict` are given
    commands/    the commands, one file a panel of the help or a part of it
    options/     options that several commands share, and the option groups of `train`
    report/      the HTML page that `report` and `demo` write
    demo/        the data and the steps of `demo`

`shardgraph --help` loads none of torch, NumPy and Ray: commands import them when they run.
"""
