// etcd is a module of its own: beside Kubernetes, minimal version selection would move libraries under both.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
