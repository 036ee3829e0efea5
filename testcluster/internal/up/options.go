package up

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

type options struct {
	dir               string
	controllerManager bool
	kubelet           bool
	staticManifests   string
	admissionConfig   string
	audit             bool
	apiserverArgs     []string
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("testcluster up", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.dir, "dir", "", "folder for everything the cluster writes; created if absent")
	flags.BoolVar(&o.controllerManager, "controller-manager", false, "run kube-controller-manager too")
	flags.BoolVar(&o.kubelet, "kubelet", false, "add a node that runs pods and serves logs, exec, attach and port-forward")
	flags.StringVar(&o.staticManifests, "static-manifests", "", "folder with a subfolder of static manifests for each admission plugin, named like the plugin")
	flags.StringVar(&o.admissionConfig, "admission-config", "", "AdmissionConfiguration file for kube-apiserver")
	flags.BoolVar(&o.audit, "audit", false, "write an audit log")
	flags.Func("apiserver-arg", "further argument for kube-apiserver; may be repeated", func(arg string) error {
		o.apiserverArgs = append(o.apiserverArgs, arg)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.dir == "" {
		return o, errors.New("--dir is missing")
	}
	if o.staticManifests != "" && o.admissionConfig != "" {
		return o, errors.New("--static-manifests writes the admission configuration that --admission-config would give: use one of them")
	}
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return o, err
	}
	// An old cluster's data would not fit the new certificates and users.
	if _, err := os.Stat(filepath.Join(o.dir, "etcd")); err == nil {
		return o, fmt.Errorf("--dir %s already holds a cluster: give an empty folder", o.dir)
	}
	return o, nil
}
