# Each target is one command; `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup image demo test lint types unit e2e test-gpu bench lab-up lab-down

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## install what is missing on this machine, make .venv
	scripts/setup-host

image: ## build the container image
	python3 images/build.py

demo: ## two virtual nodes, the playbook, the verdict (KEEP=1 leaves the lab up)
	scripts/demo

test: ## everything: lint, types, unit tests, end-to-end tests in the lab
	scripts/test

lint: ## formatting and lint
	scripts/test lint

types: ## static types
	scripts/test types

unit: ## tests without guests
	scripts/test unit

e2e: ## tests in the lab
	scripts/test e2e

test-gpu: ## tests on a real GPU, offline: PYTHON=... (3.11 to 3.13) WHEELS=... (what it lacks)
	PYTHON="$(PYTHON)" WHEELS="$(WHEELS)" scripts/test-gpu

bench: setup ## the numbers in benchmarks/; removes and rebuilds this project's container images
	.venv/bin/python -m benchmarks --forget-images

lab-up: image ## the lab `default`: two virtual nodes with the image
	python3 -m lab up

lab-down: ## end the lab `default`
	python3 -m lab down
