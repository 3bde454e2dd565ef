"""Exact tables: a node's best score as a minimum of linear cuts, and nodes that exchange them."""
