"""This module is the package that decides who may ask for what."""
