"""The report of experiments: results gathered into plain data, and written as HTML and Markdown."""
