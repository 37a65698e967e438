"""Free units given clamped ones: means, draws, completed rows."""
