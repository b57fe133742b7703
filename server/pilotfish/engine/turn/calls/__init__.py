"""The calls of a turn: their facts, approval, order and run."""
