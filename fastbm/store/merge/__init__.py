"""The merge of the parts of a finished run into one file."""
