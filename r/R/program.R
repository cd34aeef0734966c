# Calling the program: arguments are passed one by one, never through a shell's own reading.

program_path <- function() {
  found <- Sys.getenv("SFUMATO", unset = Sys.which("sfumato"))
  if (!nzchar(found)) {
    stop("There is no program 'sfumato' on the PATH. Install it (pip install sfumato), or say where ",
      "it is in the environment variable SFUMATO.",
      call. = FALSE
    )
  }
  found
}

# What the program prints; its own sentence where it fails.
run_program <- function(...) {
  said <- tempfile()
  on.exit(unlink(said))
  # R names folders of libraries for itself, in which Python may find a wrong one
  out <- suppressWarnings(
    system2(program_path(), shQuote(c(...)),
      stdout = TRUE, stderr = said, env = "LD_LIBRARY_PATH="
    )
  )
  status <- attr(out, "status")
  if (!is.null(status) && status != 0) {
    stop(sub("^sfumato: ", "", paste(readLines(said, warn = FALSE), collapse = "\n")), call. = FALSE)
  }
  paste(out, collapse = "\n")
}
