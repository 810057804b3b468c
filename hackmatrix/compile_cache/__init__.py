"""An ahead-of-time compile cache: compiled programs, saved from one start to the next.

JAX's own cache saves the compilation, but a program has to be traced and lowered before it is found
there. This one finds programs by what they are made of, without tracing. Its files are in a folder
of JAX's cache; where that is off, so is this one.
"""
