"""What happened: the record of each run on disk, the engine that starts and follows runs, logs, the cause."""
