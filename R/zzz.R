# What lives for the length of a session: the imported core. Nothing is imported at load time, so
# library(partonfit) is quick and works where there is no Python.
the <- new.env(parent = emptyenv())
the$core <- NULL
the$devices <- NULL
the$compiled <- FALSE
