"""The web pages of the service. Rendered on the server, with a little script; nothing is loaded from other sites.

    overview, graph, forget, requests, proof, rights, login   one module a page
    visitors    who visits, with which role; forms and their tokens; errors as pages
    sessions    who is logged in; encrypted addresses
    rendering   templates and their filters
    originals   the images and texts that samples were made from
    router      add_pages: all routes and static files together

A page's templates are in templates/, its scripts, styles and the icon in static/.
"""
