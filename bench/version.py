"""The version of the program, for every room: importing the package's face from below would turn the layers around."""

__version__ = "0.1.0"
