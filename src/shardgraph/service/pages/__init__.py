"""The pages: what a person sees of the service. Rendered here, with a little script; nothing is loaded from afar."""
