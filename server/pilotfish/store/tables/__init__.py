"""The tables of the store, in SQL that all its databases accept: sessions, records, blobs, and their numbering."""
