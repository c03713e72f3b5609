"""Build: what should be there, what is, and making the two agree.

wanted      the groups that have something to learn, their keys, and whether they are built so
build       train what is missing, destroy what is not wanted, publish; the prototypes' sums
manifest    the file that names the served model, and the files of adapters and prototypes
"""
