"""The commands. `main.py` assigns them to the panels of the help.

data.py         init, add, source
learn.py        train, evaluate, predict
twins.py        twins
forget.py       plan, forget, repair
share.py        grant, revoke, rights, provision
prove.py        verify, status, certificate, verify-certificate, report
serve.py        serve, token, migrate
demo.py         demo
experiment.py   experiment
"""
