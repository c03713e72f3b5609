"""Readers: a person's files as records, or as samples where the files hold embeddings.

Modules:

    registry     read: the reader for a path or a URL
    base         Reader: what each one guarantees
    folder       folders of images
    table        what tables share; delimited (CSV, TSV), jsonl, parquet and arrow (frames, streams) are its kinds
    lists        images and texts in a list
    columns      the meaning of a table's columns
    arrays       arrays as samples; arrayfiles opens .npz and .safetensors safely
"""
