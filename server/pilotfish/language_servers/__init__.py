"""Language servers that Pilotfish starts itself: for editors that cannot answer for theirs, ACP and the terminal."""
