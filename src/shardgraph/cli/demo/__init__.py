"""The demo: `digits.py` makes its data, `story.py` runs its steps, `report.py` turns them into a report."""
