#' Open a release
read_release <- function(path) {
  if (!dir.exists(path)) {
    stop("There is no release folder '", path, "'.", call. = FALSE)
  }
  run_program("describe", path, "--json") # the program checks hashes and domains
  manifest <- jsonlite::fromJSON(file.path(path, "manifest.json"), simplifyVector = FALSE)
  structure(list(path = normalizePath(path), manifest = manifest), class = "sfumato_release")
}

print.sfumato_release <- function(x, ...) {
  cat("Release", basename(x$path), "\n")
  cat("  promise   ", x$manifest$guarantee, "\n")
  cat("  mechanism ", x$manifest$mechanism, "\n")
  cat("  records   ", format(x$manifest$rows, big.mark = ","), "\n")
  for (sentence in x$manifest$statement) cat("  ", sentence, "\n", sep = "")
  invisible(x)
}

# The name of the sensitive column that is meant.
sensitive_column <- function(release, column) {
  known <- Filter(function(each) each$role == "sensitive", release$manifest$columns)
  names <- vapply(known, function(each) each$name, "")
  if (is.null(column)) {
    column <- names[1]
  }
  if (!(column %in% names)) {
    stop("'", column, "' is no sensitive column of the release. There are: ",
      paste(names, collapse = ", "), ".",
      call. = FALSE
    )
  }
  column
}
