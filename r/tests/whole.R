# Rscript whole.R [RELEASE_PERTURBED RELEASE_BUCKETED]: fails where anything is not as it must be.
library(sfumato)
given <- commandArgs(trailingOnly = TRUE)
if (length(given) < 2) { # as R CMD check starts it: the program makes the releases
  if (!nzchar(Sys.getenv("SFUMATO", unset = Sys.which("sfumato")))) {
    cat("There is no program 'sfumato': nothing was compared.\n")
    quit(status = 0)
  }
  room <- tempfile("people")
  dir.create(room)
  table <- file.path(room, "people.csv")
  sick <- rep(c("angina", "asthma", "flu", "gout", "ulcer"), each = 300)
  people <- data.frame(age = rep(20:69, 30), sex = rep(c("F", "M"), 750), disease = sick)
  write.csv(people, table, row.names = FALSE)
  publish <- function(promise, mechanism) {
    to <- file.path(room, mechanism)
    roles <- c("--quasi", "age,sex", "--sensitive", "disease")
    promised <- c("--guarantee", promise, "--mechanism", mechanism)
    sfumato:::run_program("publish", table, roles, promised, "--out", to)
    to
  }
  given <- c(publish("rho-privacy(0.3, 0.6)", "uniform"), publish("l-diversity(3)", "optimal"))
}
near <- function(a, b) stopifnot(length(a) == length(b), all(abs(a - b) < 1e-6 * pmax(1, abs(b))))
fails <- function(code, words) {
  said <- tryCatch({ code; "" }, error = conditionMessage)
  stopifnot(grepl(words, said, fixed = TRUE))
}

drawn <- read_release(given[1])
stopifnot(inherits(drawn, "sfumato_release"))
sql <- "SELECT disease, COUNT(*) AS count FROM release WHERE sex = 'F' GROUP BY disease"
theirs <- ask(drawn, sql)
ours <- counts(drawn, "disease", "sex = 'F'")
stopifnot(identical(names(ours), c("disease", "count", "count_stderr", "count_low", "count_high")))
near(ours$count, theirs$count)
both <- cross_table(drawn, "sex")
stopifnot(nrow(both) == 2 * nrow(ours))
fails(counts(drawn, "age"), "no sensitive column")
fails(cross_table(drawn, "shoe size"), "shoe size")
fails(ask(drawn, "SELECT shoe FROM release"), "shoe")
fails(read_release("nowhere"), "There is no release folder")

listed <- read_release(given[2])
near(sum(counts(listed)$count), listed$manifest$rows)
print(listed)
cat("R agrees\n")
