library(testthat)
library(partonfit)

test_check("partonfit")
