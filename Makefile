# What a person types. Each target does its own set-up; a second run skips what is there.

.PHONY: help setup test test-r test-python lint demo document vignette check clean

help:
	@echo "make setup     install what is needed: R packages, .rlib/, .venv/"
	@echo "make demo      the main job: 100 replicas on the HERA data, results in demo/"
	@echo "make test      the tests of both languages and the linters"
	@echo "make document  write NAMESPACE and man/ from the comments in R/"
	@echo "make check     R CMD build and R CMD check"
	@echo "make clean     remove demo/ and build leftovers (clean-all: the set-up too)"

setup:
	@bash tools/setup.sh

demo: setup
	@bash tools/demo.sh

test: setup
	@bash tools/test.sh lint python r

test-r: setup
	@bash tools/test.sh r

test-python: setup
	@bash tools/test.sh python

lint: setup
	@bash tools/test.sh lint

document: setup
	@bash tools/document.sh

check: setup
	@bash tools/check.sh

clean:
	rm -rf demo .setup/stage .setup/check

clean-all: clean
	rm -rf .setup .rlib .venv
