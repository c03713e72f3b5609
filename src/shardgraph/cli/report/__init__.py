"""The report: one HTML file that a person wants to look at. It asks nothing of the network."""
