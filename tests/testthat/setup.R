# Snapshots must not depend on the terminal; tests must not eat every core.
withr::local_options(
  cli.width = 80, width = 80, cli.unicode = TRUE, cli.num_colors = 1L, partonfit.progress = FALSE,
  .local_envir = teardown_env()
)
withr::local_envvar(OMP_NUM_THREADS = "1", .local_envir = teardown_env())
