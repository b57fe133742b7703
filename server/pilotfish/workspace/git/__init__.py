"""Facts about git repositories, read without running their programs."""
