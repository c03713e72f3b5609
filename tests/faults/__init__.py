"""Faults that are brought in on purpose: bits that flip on the disk.

bitflips    flips bits in all files of a workspace, and tries whether `verify`, `forget` and `add` stay truthful
"""
