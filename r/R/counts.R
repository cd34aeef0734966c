#' Counts of a sensitive column, with standard errors and intervals
counts <- function(release, column = NULL, where = NULL, confidence = 0.95, by = NULL) {
  name <- sensitive_column(release, column)
  keys <- paste(quoted(c(by, name)), collapse = ", ")
  rows <- if (is.null(where)) "" else paste(" WHERE", where)
  sql <- paste0("SELECT ", keys, ", COUNT(*) AS count FROM release", rows, " GROUP BY ", keys)
  ask(release, sql, confidence)
}

#' A table of counts by a quasi and a sensitive column
cross_table <- function(release, by, column = NULL, confidence = 0.95) {
  counts(release, column, confidence = confidence, by = by)
}

quoted <- function(names) paste0('"', gsub('"', '""', names, fixed = TRUE), '"')
