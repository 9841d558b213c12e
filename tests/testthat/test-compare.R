comparisons <- new.env()

small_comparison <- function() {
  fit <- real_fit()
  if (is.null(comparisons$small)) {
    other <- fit_pdf("hera", replicas = 3, seed = 8, control = small_control())
    comparisons$other <- other
    comparisons$small <- compare(fit, other, flavours = c("g", "u_v"), labels = c("seed 7", "seed 8"))
  }
  comparisons$small
}

test_that("a comparison has distances, chi2 and bands", {
  both <- small_comparison()
  expect_identical(nrow(both$distances), 100L)
  expect_true(all(both$distances$distance2_central >= 0))
  expect_identical(both$chi2$dataset[[8]], "total")
  expect_equal(both$chi2$chi2_per_point_first[[8]], utils::tail(chi2(real_fit())$chi2_per_point, 1),
    tolerance = 1e-8)
  expect_identical(unique(both$bands$label), c("seed 7", "seed 8"))
})

test_that("distances are those of their definition", {
  both <- small_comparison()
  moments <- function(fit) {
    values <- unlist(predict(fit, x = 0.1, flavour = "g", type = "replicas")$.replicas)
    c(mean(values), stats::var(values) / length(values))
  }
  ours <- compare(real_fit(), comparisons$other, flavours = "g", x = 0.1)$distances$distance2_central
  one <- moments(real_fit())
  two <- moments(comparisons$other)
  expect_equal(ours, (one[[1]] - two[[1]])^2 / (one[[2]] + two[[2]]), tolerance = 1e-6)
})

test_that("a fit is at distance zero of itself, and a function has no replicas", {
  fit <- real_fit()
  expect_identical(max(compare(fit, fit, flavours = "g")$distances$distance2_central), 0)
  with_law <- compare(fit, "toy", flavours = "g")
  expect_true(all(is.nan(with_law$distances$distance2_central)))
  expect_true(all(is.nan(with_law$bands$lower[with_law$bands$label == "second"])))
  expect_s3_class(ggplot2::ggplotGrob(autoplot(with_law, type = "ratio")), "gtable")
})

test_that("its methods need no Python, its report does", {
  both <- small_comparison()
  file <- file.path(withr::local_tempdir(), "both.html")
  report(both, file)
  expect_gt(file.size(file), 1e4)
  local_no_python()
  expect_output(print(both), "seed 7")
  expect_identical(summary(both)$flavour, c("g", "u_v"))
  expect_identical(tidy(both), both$distances)
  expect_identical(nrow(as.data.frame(both, what = "chi2")), 8L)
  for (type in c("distances", "chi2", "ratio")) expect_s3_class(autoplot(both, type = type), "ggplot")
})

test_that("bad calls are refused before Python starts", {
  fit <- fake_fit()
  local_no_python()
  expect_snapshot(error = TRUE, {
    compare(3, fit)
    compare(fit, 3)
    compare(fit, fit, labels = "one")
    compare(fit, fit, labels = c("a", "a"))
    compare(fit, fit, x = 2)
    compare(fit, fit, Q = 0)
    compare(fit, fit, flavours = NA)
    compare(fit, fit, flavors = "g")
  })
})
