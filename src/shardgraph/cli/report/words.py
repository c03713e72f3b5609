"""The certificate in plain words. It must say no more than docs/guarantees.md."""

PROVED = (
    "When it was signed, the served model had exactly this digest, and the holder of the signing key vouches that it "
    "was built without the samples named here.",
    "Whoever holds the retained samples can build the model again and must get the same digest: `shardgraph verify "
    "--full` does.",
    "The one who asked can check, with a nonce of her own, that her sample is among those forgotten. Nobody else can "
    "read from the certificate which samples it speaks of.",
    "Of the certificates up to the last one that you know, none was taken out or changed: each names the digest of "
    "the one before.",
)
PRIVATE = (
    "When it was signed, the served model had this digest, and the holder of the signing key vouches that every "
    "adapter that used the samples named here directly was built anew without them.",
    "Adapters that used them privately stayed. The guarantee says how close these are to ones that never saw them: by "
    "a factor e^alpha and a probability beta. Nobody can build them again, since their noise is not kept.",
    *PROVED[2:],
)
NOT_PROVED = (
    "That no copy is elsewhere: on a disk's old blocks, in a backup, in the table that was added, in another sample "
    "that holds the same content (`shardgraph twins` looks for those).",
    "That the signer is honest. It is evidence that can be checked against the data, not a proof to somebody who "
    "cannot see the data.",
    "That the pretrained backbone never saw it: it was trained by others, on other data, and forgets nothing.",
    "That answers given before can be taken back.",
)
