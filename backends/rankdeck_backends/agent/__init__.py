"""The agent: the part of rankdeck that runs on compute nodes. Python 3.6, standard library only."""
