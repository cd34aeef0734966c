#' Open a release
read_release <- function(path) {
  if (!dir.exists(path)) {
    stop("There is no release folder '", path, "'.", call. = FALSE)
  }
  folder <- tempfile("release-")
  on.exit(unlink(folder, recursive = TRUE))
  # the program checks hashes and domains before it writes the tables
  run_program("export-metadata", path, "--format", "csvw", "--out", folder)
  manifest <- jsonlite::fromJSON(file.path(path, "manifest.json"), simplifyVector = FALSE)
  told <- jsonlite::fromJSON(file.path(folder, "csv-metadata.json"), simplifyVector = FALSE)
  tables <- lapply(told$tables, function(table) read_table(folder, table))
  names(tables) <- sub("\\.csv$", "", vapply(told$tables, function(table) table$url, ""))
  structure(
    c(list(path = normalizePath(path), manifest = manifest), tables),
    class = "sfumato_release"
  )
}

read_table <- function(folder, table) {
  columns <- table$tableSchema$columns
  base <- vapply(columns, function(column) {
    if (is.list(column$datatype)) column$datatype$base else column$datatype
  }, "")
  several <- vapply(columns, function(column) !is.null(column$separator), TRUE)
  kinds <- c(integer = "numeric", double = "numeric", boolean = "logical")
  classes <- ifelse(several | !(base %in% names(kinds)), "character", kinds[base])
  # an empty text is a value; only \N is missing
  found <- read.csv(file.path(folder, table$url),
    colClasses = unname(classes), na.strings = "\\N", check.names = FALSE, encoding = "UTF-8",
    strip.white = FALSE
  )
  for (place in which(several)) {
    found[[place]] <- strsplit(found[[place]], columns[[place]]$separator, fixed = TRUE)
  }
  found
}

print.sfumato_release <- function(x, ...) {
  cat("Release", basename(x$path), "\n")
  cat("  promise   ", x$manifest$guarantee, "\n")
  cat("  mechanism ", x$manifest$mechanism, "\n")
  cat("  records   ", format(x$manifest$rows, big.mark = ","), "\n")
  for (sentence in x$manifest$statement) cat("  ", sentence, "\n", sep = "")
  invisible(x)
}

#' The sensitive column that is meant
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
  known[[match(column, names)]]
}

column_values <- function(column) {
  vapply(column$domain$values, function(v) if (is.null(v)) NA_character_ else as.character(v), "")
}
