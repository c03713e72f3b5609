"""Storage: how data is kept on disk, found and erased. All SQL of the project is in this package.

    catalogue     Catalogue and Transaction: the open database, its transactions, and `scrub`
    checksums     Checksums: sums of the rows of every table, by which rot is found
    tables/       functions that read and write the tables; every SQL statement is here
    migrations/   numbered changes of the database's layout
    store         Store: the files of samples, kept in step with the catalogue
    samples       Samples: ids, labels, tokens and features of samples; shard files and tensor files
    files         writes files completely or not at all, overwrites them before removal; WriteLock, `retry_while_busy`

Storage imports no other package of the project.
"""
