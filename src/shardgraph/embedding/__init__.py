"""Embedding: from a person's data to samples (tokens and features), with bits that do not depend on the batch.

Modules:

    records      Record: one sample before embedding; ids by content
    remote       RemotePath: data at a URL
    readers/     files, folders and frames -> records, or samples where the data are arrays
    backbones/   frozen networks: records -> tokens and features
    pipeline     embed: records through a backbone, in order, in bounded memory
    on_cluster   the same on the nodes of a cluster
"""
