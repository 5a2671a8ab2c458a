"""What every layer stands on: precision, keys, padded data, linear algebra, descent."""
