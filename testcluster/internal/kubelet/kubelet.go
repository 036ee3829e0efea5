// Package kubelet stands in for a node: it binds every pod to itself, reports
// it as running and serves the endpoints behind logs, exec, attach and
// port-forward. Containers are folders; commands run on this machine, with the
// rights of this process.
package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"portcullis.dev/testcluster/internal/pki"
)

// NodeName is the name of the only node.
const NodeName = "n1"

// Config is what the stand-in needs to know about its cluster.
type Config struct {
	// Dir receives a folder for each container.
	Dir    string
	Client kubernetes.Interface
	// Serving is shown to the API server, and Clients vouch for it in turn.
	Serving pki.Pair
	Clients *pki.Authority
	// APIServer is the common name of the only caller that is let in.
	APIServer string
}

// Kubelet is a running stand-in.
type Kubelet struct {
	server    *http.Server
	sandboxes *sandboxes
	cancel    context.CancelFunc
	work      sync.WaitGroup
}

// Start returns when the node is registered and the pods are watched. The
// stand-in lives as long as ctx; starting bounds only the start.
func Start(ctx, starting context.Context, config Config) (*Kubelet, error) {
	certificate, err := tls.LoadX509KeyPair(config.Serving.CertFile, config.Serving.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load the kubelet's certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	kubelet := &Kubelet{
		sandboxes: newSandboxes(running, filepath.Join(config.Dir, "pods")),
		cancel:    cancel,
	}
	kubelet.server = &http.Server{
		Handler: onlyCaller(config.APIServer, kubelet.routes()),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    config.Clients.Pool(),
			MinVersion:   tls.VersionTLS12,
		},
		ReadHeaderTimeout: 10 * time.Second,
		// Logs that are followed end with the pod, at the latest with us.
		BaseContext: func(net.Listener) context.Context { return running },
		ErrorLog:    log.New(klogWriter{}, "", 0),
	}
	kubelet.work.Go(func() {
		// The only way out is Close, and its error says just that.
		_ = kubelet.server.ServeTLS(listener, "", "")
	})
	if err := kubelet.join(running, starting, config.Client, listener.Addr()); err != nil {
		kubelet.Stop()
		return nil, err
	}
	return kubelet, nil
}

func (k *Kubelet) join(ctx, starting context.Context, client kubernetes.Interface, address net.Addr) error {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("the kubelet listens on %v, which is no TCP address", address)
	}
	if err := register(starting, client, int32(tcp.Port)); err != nil {
		return err
	}
	k.work.Go(func() { heartbeat(ctx, client) })
	pods, err := newPodLoop(ctx, starting, client, k.sandboxes)
	if err != nil {
		return err
	}
	k.work.Go(func() { pods.run(ctx) })
	return nil
}

// Stop ends every command and connection.
func (k *Kubelet) Stop() {
	k.cancel()
	// Hijacked streams are not the server's any more; their pods' end, which
	// cancel has brought about, closes them.
	_ = k.server.Close()
	k.work.Wait()
	k.sandboxes.wait()
}

type klogWriter struct{}

func (klogWriter) Write(line []byte) (int, error) {
	klog.InfoDepth(2, string(line))
	return len(line), nil
}
