"""The agent in the driver: measurements in, decisions out; how sources reach it."""
