"""The machine: units, couplings, energies, clamping, and its file."""
