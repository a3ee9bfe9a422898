"""Files that are there whole or not at all, and the checksums that tell whether one has changed since."""
