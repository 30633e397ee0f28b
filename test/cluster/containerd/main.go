//go:build tools

// Package containerd only depends on containerd's programs: its own go.mod has replace lines, which `go install`
// refuses, but as a dependency it builds.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
