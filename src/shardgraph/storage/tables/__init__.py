"""The tables of the catalogue, and every SQL statement that reads or writes them.

    inventory   samples, the files that hold them, and the adapters and prototypes that are built
    names       samples and what they are named after, by the beginning of a name
    requests    what people ask to forget, and the samples that are withheld meanwhile
    erasures    the batches that carry out requests, their journal, and marks of what was forgotten
    ledger      the events, names of lines in the erasure log, and the account of private edges
    parties     sources and their terms, consumers and their rights and groups, tokens

Functions that read take the `Catalogue`, functions that write take a `Transaction`. Within a transaction, reads see
what it has written so far.
"""
