"""What moves the parameters, epoch by epoch."""
