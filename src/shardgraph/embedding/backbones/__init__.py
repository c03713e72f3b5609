"""Backbones: frozen pretrained networks that turn samples into tokens and features."""
