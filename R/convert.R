# The only file that sees Python values. What crosses: scalars, strings, flat lists, dictionaries of
# equal-length columns, NumPy arrays of doubles. A missing number is NaN, never None.

# A vector that must stay one in Python even when it has one element.
as_python_numbers <- function(x) array(as.double(x))
as_python_strings <- function(x) as.list(as.character(x))

# A dictionary; an empty R list would arrive as an empty Python list.
as_python_dict <- function(x) if (length(x)) x

# Bytes go over as a bytearray, which is what reticulate makes of a raw vector.
as_python_bytes <- function(x) x

# A dictionary of columns as a tibble. `types` names the columns to take, in order, and their types.
as_table <- function(columns, types) {
  vectors <- lapply(names(types), function(name) {
    as_column(columns[[name]], types[[name]])
  })
  tibble::as_tibble(stats::setNames(vectors, names(types)))
}

# NumPy arrays of one dimension arrive as arrays, empty Python lists as empty R lists.
as_column <- function(x, type) {
  x <- unlist(as.list(x), use.names = FALSE)
  if (is.null(x)) return(vector(type, 0))
  storage.mode(x) <- type
  x
}

as_matrix <- function(x) {
  storage.mode(x) <- "double"
  unname(x)
}

as_text <- function(x) as.character(x)[[1]]

# One entry of `data`: a name stays a string, a list with names becomes a dictionary.
as_python_entries <- function(entries) {
  if (is.character(entries) && length(entries) == 1) return(entries)
  lapply(entries, function(entry) {
    if (is.character(entry)) entry else as.list(entry)
  })
}
