"""An ahead-of-time compile cache: programs kept from one start of a program to the next.

JAX's own cache saves the compilation, but a program has to be traced and lowered before it is found
there. These are found by what they are made of, without being traced, and lie in a folder of that
cache. Where JAX keeps nothing, nothing is kept here either.
"""
