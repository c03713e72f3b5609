"""Storage: what is kept on disk, and how it is kept, found and erased. The only room that knows SQL.

    catalogue     Catalogue and Transaction: the open database, its transactions, and `scrub`
    tables        functions that read and write the tables; every SQL statement stands there
    migrations    numbered changes of the database's layout
    store         Store: the files of samples, kept in step with the catalogue
    samples       Samples: ids, labels, tokens and features of samples, and their bytes in a file
    tensorfile    files of tensors, written and read without copies
    files         files that are written whole or not at all, and overwritten before they are removed
    lock          WriteLock: one process writes at a time; `retry_while_busy`

Storage imports no other room.
"""
