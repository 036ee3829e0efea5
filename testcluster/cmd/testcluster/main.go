// Command testcluster is a whole Kubernetes control plane in one binary, made
// for tests: `testcluster up` holds one until its standard input closes. The
// control plane's parts are this binary run again under their own names.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"portcullis.dev/testcluster/internal/up"
)

const usage = `usage:
  testcluster up --dir DIR [flags]        start a cluster, hold it until stdin closes
  testcluster kube-apiserver [flags]      the stock component
  testcluster kube-controller-manager [flags]
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	name := os.Args[1]
	// Each component parses os.Args itself and takes its name from the front.
	os.Args = os.Args[1:]
	switch name {
	case "up":
		os.Exit(up.Main(os.Args[1:]))
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "testcluster: unknown command %q\n%s", name, usage)
		os.Exit(2)
	}
}
