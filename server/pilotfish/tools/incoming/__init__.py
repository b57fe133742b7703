"""Reads the calls that models send: other agents' tool and argument names, and values of another type."""
