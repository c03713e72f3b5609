"""Build: which groups should be built, which are built, and training the missing ones.

wanted      the groups to build, their keys, whether they are built; the manifest; files of adapters and prototypes
build       trains missing groups, destroys unwanted ones, publishes the manifest, updates the prototypes
"""
