-- Everything is in the main file, so that it can be copied.
pragma wal_checkpoint(truncate);
