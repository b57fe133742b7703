"""Decides whether a tool call may run: modes, rules, verdicts, hosts and secrets. Pure functions."""
