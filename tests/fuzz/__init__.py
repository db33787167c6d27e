"""Fuzzing that stays: sound files of every format, mutations that know their structure, and every reader and setting as a target.

make fuzz MINUTES=10            a campaign; what it finds is kept under fuzz/ with the command that repeats it
make fuzz GUIDED=1              the same readers and settings, guided by coverage (needs atheris)
pytest tests/fuzz               the share of it that runs with the tests, and what was ever found
"""
