//go:build tools

// Package tools only depends on the programs that the suites use beside the cluster's own.
package tools

import (
	_ "github.com/nats-io/nats-server/v2"
	_ "helm.sh/helm/v4/cmd/helm"
)
