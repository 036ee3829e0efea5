// Package apiserver runs kube-apiserver as a child on a port reserved for it.
package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"portcullis.dev/testcluster/internal/child"
	"portcullis.dev/testcluster/internal/pki"
)

const (
	// Name is the component's name, also the argument that selects it.
	Name = "kube-apiserver"
	// KubeletClient is the common name that the API server shows to kubelets.
	KubeletClient = "kube-apiserver-kubelet-client"
	// Internal is the common name under which this process calls the API.
	Internal = "testcluster"

	pollInterval = 50 * time.Millisecond
)

// auditPolicy leaves out what the cluster does by itself, so that the log
// holds the calls of the test.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "` + Internal + `"]
- level: Metadata
`

// Config is what differs between one API server and another.
type Config struct {
	// Dir receives generated configuration files.
	Dir     string
	LogFile string
	EtcdURL string

	Serving           pki.Pair
	ServingCA         *pki.Authority
	ClientCA          *pki.Authority
	KubeletClient     pki.Pair
	ServiceAccountKey string
	TokenFile         string

	// ControllerManager tells whether service accounts come into being.
	ControllerManager bool
	// AdmissionConfig is a file; StaticManifests a folder to write one for.
	AdmissionConfig string
	StaticManifests string
	// AuditLog switches auditing on.
	AuditLog string
	// ExtraArgs come last and therefore win.
	ExtraArgs []string
}

// Server is a started API server.
type Server struct {
	*child.Process
	URL  string
	port *reservation
}

// Start launches the server without waiting for it.
func Start(config Config) (*Server, error) {
	port, err := reserve()
	if err != nil {
		return nil, err
	}
	args, err := config.args(port.port)
	if err != nil {
		port.release()
		return nil, err
	}
	process, err := child.Run(Name, config.LogFile, args)
	if err != nil {
		port.release()
		return nil, err
	}
	return &Server{Process: process, URL: fmt.Sprintf("https://127.0.0.1:%d", port.port), port: port}, nil
}

// Stop ends the server and gives its port back.
func (s *Server) Stop(grace time.Duration) {
	s.Process.Stop(grace)
	s.port.release()
}

// WaitReady polls /readyz, which also covers the built-in RBAC roles. The token
// is for servers that were told to refuse anonymous callers.
func (s *Server) WaitReady(ctx context.Context, roots *x509.CertPool, token string) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "no answer yet"
	for {
		ready, answer := s.probe(ctx, client, token)
		if ready {
			return nil
		}
		if answer != "" {
			last = answer
		}
		select {
		case <-ticker.C:
		case <-s.Done():
			return s.Failure(s.ExitReason())
		case <-ctx.Done():
			return s.Failure(fmt.Sprintf("did not become ready: %v; last answer of /readyz: %s", context.Cause(ctx), last))
		}
	}
}

func (s *Server) probe(ctx context.Context, client *http.Client, token string) (bool, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/readyz?verbose", nil)
	if err != nil {
		return false, err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return false, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	if err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusOK, string(body)
}

func (c Config) args(port int) ([]string, error) {
	args := []string{
		"--etcd-servers=" + c.EtcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--permit-port-sharing=true",
		// The `kubernetes` Service would want a non-loopback address.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + c.Serving.CertFile,
		"--tls-private-key-file=" + c.Serving.KeyFile,
		"--client-ca-file=" + c.ClientCA.CertFile,
		"--token-auth-file=" + c.TokenFile,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.ServiceAccountKey,
		"--service-account-signing-key-file=" + c.ServiceAccountKey,
		"--kubelet-certificate-authority=" + c.ServingCA.CertFile,
		"--kubelet-client-certificate=" + c.KubeletClient.CertFile,
		"--kubelet-client-key=" + c.KubeletClient.KeyFile,
		"--kubelet-preferred-address-types=InternalIP",
		"--allow-privileged=true",
		"--profiling=false",
	}
	if !c.ControllerManager {
		// This plugin refuses pods until somebody creates the namespace's
		// `default` service account, which is the controller manager's work.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	admission, err := c.admissionFile()
	if err != nil {
		return nil, err
	}
	if admission != "" {
		args = append(args, "--admission-control-config-file="+admission)
	}
	if c.AuditLog != "" {
		policy := filepath.Join(c.Dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+c.AuditLog)
	}
	return append(args, c.ExtraArgs...), nil
}

func (c Config) admissionFile() (string, error) {
	if c.StaticManifests == "" {
		return c.AdmissionConfig, nil
	}
	file := filepath.Join(c.Dir, "admission.yaml")
	return file, writeStaticAdmission(file, c.StaticManifests)
}
