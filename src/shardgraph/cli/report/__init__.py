"""The report: one HTML file that loads nothing from the network.

content.py   what a report contains, as values
summary.py   the content for a workspace (`demo/report.py`: for the demo)
page.py      renders content as HTML
drawing.py   draws the shard graph as SVG
style.py     the style sheet
"""
