# Two commands set everything up on a fresh machine: `make demo` and `make test`. Daily work uses the npm scripts.
# The programs run on the Node that npm installs beside them, whatever the machine's own one is.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

.PHONY: help setup demo start test test-cluster verify bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## Install the system packages and npm packages that are missing
	@local/setup.sh

demo: ## Watch photos and a video go through the platform (VIDEO=path uses your own, CHECK=1 checks them and exits)
	@local/setup.sh --demo
	@exec node local/demo.ts

start: ## Run the platform on this machine; data stays in .keepsake
	@local/setup.sh --demo
	@exec node local/main.ts

test: setup ## Run every test this machine can run
	@exec node test/run.ts

test-cluster: ## Run the tests that need a real Kubernetes (docs/testing-on-kubernetes.md)
	@local/setup.sh --cluster
	@exec node test/cluster/run.ts

verify: setup ## Types, lint, import rules, dead code, generated files, OpenAPI, words
	@npm run --silent verify

bench: setup ## Measure, and print the tables of docs/benchmarks.md
	@npm run --silent bench

clean: ## Remove what can be made again (not .keepsake)
	rm -rf dist coverage .tap node_modules
