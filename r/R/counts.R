# Counts in R itself. What a release shows is, on average, the matrix P times the truth: the published
# counts o of the records of a group give the unbiased estimate solve(t(P), o). With W = solve(P), a
# record that shows y adds W[y, ] to the estimate, so the variance is known too.

rational <- function(text) {
  parts <- as.numeric(strsplit(as.character(text), "/", fixed = TRUE)[[1]])
  if (length(parts) == 2) parts[1] / parts[2] else parts[1]
}

operator_matrix <- function(operator) {
  m <- operator$values
  number <- function(each) as.numeric(unlist(each))
  switch(operator$form,
    "uniform" = {
      p <- rational(operator$retention)
      diag(p, m) + (1 - p) / m
    },
    "fine-grain" = {
      p <- number(operator$retentions) / as.numeric(operator$denominator)
      diag(p, m) + (1 - p) / m
    },
    "general" = do.call(rbind, lapply(operator$rows, number)) / as.numeric(operator$denominator),
    NULL
  )
}

#' Counts of a sensitive column
counts <- function(release, column = NULL, where = NULL, confidence = 0.95) {
  described <- sensitive_column(release, column)
  name <- described$name
  values <- column_values(described)
  kind <- release$manifest$kind
  operator <- release$manifest$plan$operators[[name]]
  matrix <- if (is.null(operator)) NULL else operator_matrix(operator)
  if (kind == "bucketed" && is.null(where) && !isTRUE(release$manifest$plan$fakes > 0)) {
    # buckets show how often each value occurs: the whole table's counts are exact
    shown <- release$sensitive
    estimate <- vapply(values, function(v) sum(shown$count[same(shown[[name]], v)]), 0)
    return(as_counts(name, values, estimate, 0 * estimate, confidence))
  }
  if (is.null(matrix)) {
    stop("Counts of a ", kind, " release by ", release$manifest$mechanism,
      " are not estimated in R itself. Use ask(): the program answers with its own estimator.",
      call. = FALSE
    )
  }
  chosen <- if (is.null(where)) rep(TRUE, nrow(release$records)) else where
  if (!is.logical(chosen) || length(chosen) != nrow(release$records)) {
    stop("'where' must say TRUE or FALSE for each of the ", nrow(release$records), " records.",
      call. = FALSE
    )
  }
  shown <- release$records[[name]][chosen & !is.na(chosen)]
  observed <- vapply(values, function(v) sum(same(shown, v)), 0)
  weights <- solve(matrix)
  estimate <- as.vector(observed %*% weights)
  # Var = sum over truths x of n_x (E[W[y, v]^2 | x] - 1{x = v}); with E[o] = P'n, the first is o W^2
  variance <- as.vector(observed %*% weights^2) - estimate
  # never below what it is where nobody has the value: an estimate below 0 would make it too small
  spread <- matrix %*% weights^2
  diag(spread) <- Inf
  least <- sum(observed) * apply(spread, 2, min)
  as_counts(name, values, estimate, sqrt(pmax(variance, least, 0)), confidence)
}

#' A table of counts by a quasi and a sensitive column
cross_table <- function(release, by, column = NULL, confidence = 0.95) {
  if (!(by %in% names(release$records))) {
    stop("The records have no column '", by, "'. There are: ",
      paste(names(release$records), collapse = ", "), ".",
      call. = FALSE
    )
  }
  groups <- sort(unique(release$records[[by]]), na.last = TRUE)
  parts <- lapply(groups, function(group) {
    found <- counts(release, column, same(release$records[[by]], group), confidence)
    cbind(stats::setNames(data.frame(group), by), found)
  })
  do.call(rbind, parts)
}

same <- function(cells, value) {
  if (is.na(value)) is.na(cells) else !is.na(cells) & cells == value
}

as_counts <- function(name, values, estimate, error, confidence) {
  z <- qnorm((1 + confidence) / 2)
  found <- data.frame(values, unname(estimate), unname(error),
    unname(estimate - z * error), unname(estimate + z * error)
  )
  stats::setNames(found, c(name, "count", "standard_error", "low", "high"))
}
