#' Ask SQL of a release
ask <- function(release, sql, confidence = 0.95, estimator = NULL) {
  path <- if (inherits(release, "sfumato_release")) release$path else release
  flags <- c("--json", "--confidence", format(confidence))
  if (!is.null(estimator)) {
    flags <- c(flags, "--estimator", estimator)
  }
  told <- jsonlite::fromJSON(run_program("query", path, sql, flags), simplifyVector = TRUE)
  if (length(told$rows) == 0) {
    empty <- replicate(length(told$columns), logical(0), simplify = FALSE)
    return(as.data.frame(stats::setNames(empty, told$columns), check.names = FALSE))
  }
  as.data.frame(told$rows, check.names = FALSE)
}
