"""Every table and figure of the paper, and ours, as pure functions on one cache of embeddings.

    python -m experiments.cache data/cub200_s128.parquet --backbone efficientnet-lite2 --cache CACHE
    shardgraph experiment accuracy --cache CACHE

Embeddings, training and records:

    cache        data sets embedded once by each backbone
    rivals       the methods that are compared, behind one interface
    slices       SISA with slices; legonet: LegoNet's select-and-average
    masked       the paper's joint masked training, a reference for tests and benchmarks
    training     many groups trained in memory
    runs         trains and measures; ablation and private have runs of their own
    recordfile   measurements in a file, a line of JSON each
    records      measurements of all data sets, and queries over them
    finished     which data sets have all records that an experiment needs

Tables and figures, each made from records by a function `show`:

    second, accuracy, cost, fine, instant, adapters, prototypes, domains, graphs, others, private, ablation
    alacarte     models of consumers' rights; a program of its own
    paper        the numbers that the paper reports
    result       tables and a figure, printed and written to files
    page         all results as one page
    command      exit codes of these programs
"""
