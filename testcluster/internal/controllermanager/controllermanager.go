// Package controllermanager runs kube-controller-manager as a child.
package controllermanager

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"portcullis.dev/testcluster/internal/child"
	"portcullis.dev/testcluster/internal/pki"
)

// Name is the component's name, also the argument that selects it.
const Name = "kube-controller-manager"

// Config is what the component needs to know about its cluster.
type Config struct {
	LogFile           string
	Kubeconfig        string
	ServingCA         *pki.Authority
	ClientCA          *pki.Authority
	ServiceAccountKey string
}

// Start launches the component against a ready API server.
func Start(config Config) (*child.Process, error) {
	return child.Run(Name, config.LogFile, []string{
		"--kubeconfig=" + config.Kubeconfig,
		"--leader-elect=false",
		// Nobody scrapes it: no port to find for it.
		"--secure-port=0",
		"--service-account-private-key-file=" + config.ServiceAccountKey,
		"--root-ca-file=" + config.ServingCA.CertFile,
		"--cluster-signing-cert-file=" + config.ClientCA.CertFile,
		"--cluster-signing-key-file=" + config.ClientCA.KeyFile,
		// The defaults are polite to a shared API server; this one is ours.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	})
}

// WaitReady returns once the controllers have done their first visible work:
// the `default` service account of the `default` namespace.
func WaitReady(ctx context.Context, process *child.Process, client kubernetes.Interface) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-process.Done():
			return process.Failure(process.ExitReason())
		case <-ctx.Done():
			return process.Failure(fmt.Sprintf("created no service account: %v (%v)", context.Cause(ctx), err))
		}
	}
}
