"""Privacy: what groups with private edges have released, and what removals cost them.

charges         the releases and removals of a workspace, stored in the catalogue
private_edges   what the first training fixes, and what must hold before anything is released
guarantee       (alpha, beta) for a certificate and for `status`, in words and numbers
"""
