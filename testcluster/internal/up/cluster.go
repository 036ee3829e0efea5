package up

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"portcullis.dev/testcluster/internal/apiserver"
	"portcullis.dev/testcluster/internal/child"
	"portcullis.dev/testcluster/internal/controllermanager"
	"portcullis.dev/testcluster/internal/etcd"
	"portcullis.dev/testcluster/internal/kubelet"
	"portcullis.dev/testcluster/internal/rbac"
	"portcullis.dev/testcluster/internal/users"
)

// cluster is the parts that run so far.
type cluster struct {
	options     options
	logs        string
	credentials *credentials

	etcd      *etcd.Server
	apiserver *apiserver.Server
	manager   *child.Process
	kubelet   *kubelet.Kubelet
}

// start brings everything up. Parts that live on belong to ctx, waiting ends
// with starting.
func (c *cluster) start(ctx, starting context.Context) error {
	var first errgroup.Group
	first.Go(func() (err error) {
		c.etcd, err = etcd.Start(c.options.dir, filepath.Join(c.logs, "etcd.log"))
		return err
	})
	first.Go(func() (err error) {
		c.credentials, err = createCredentials(c.options.dir)
		return err
	})
	if err := first.Wait(); err != nil {
		return err
	}
	if err := c.startAPIServer(starting); err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	second, waiting := errgroup.WithContext(starting)
	second.Go(func() error { return rbac.Bootstrap(waiting, client) })
	if c.options.controllerManager {
		second.Go(func() error { return c.startManager(waiting, client) })
	}
	if c.options.kubelet {
		second.Go(func() (err error) {
			c.kubelet, err = kubelet.Start(ctx, waiting, kubelet.Config{
				Dir:       c.options.dir,
				Client:    client,
				Serving:   c.credentials.kubelet,
				Clients:   c.credentials.clientCA,
				APIServer: apiserver.KubeletClient,
			})
			return err
		})
	}
	return second.Wait()
}

func (c *cluster) startAPIServer(starting context.Context) error {
	config := apiserver.Config{
		Dir:               c.options.dir,
		LogFile:           filepath.Join(c.logs, apiserver.Name+".log"),
		EtcdURL:           c.etcd.URL,
		Serving:           c.credentials.apiserver,
		ServingCA:         c.credentials.servingCA,
		ClientCA:          c.credentials.clientCA,
		KubeletClient:     c.credentials.kubeletClient,
		ServiceAccountKey: c.credentials.serviceAccountKey,
		TokenFile:         c.credentials.tokenFile,
		ControllerManager: c.options.controllerManager,
		AdmissionConfig:   c.options.admissionConfig,
		StaticManifests:   c.options.staticManifests,
		AuditLog:          c.auditLog(),
		ExtraArgs:         c.options.apiserverArgs,
	}
	server, err := apiserver.Start(config)
	if err != nil {
		return err
	}
	c.apiserver = server
	if err := users.WriteKubeconfigs(c.credentials.users, server.URL, c.credentials.servingCA.CertFile); err != nil {
		return err
	}
	if err := c.etcd.WaitReady(starting); err != nil {
		return err
	}
	return server.WaitReady(starting, c.credentials.servingCA.Pool(), c.credentials.users["admin"].Token)
}

func (c *cluster) startManager(starting context.Context, client kubernetes.Interface) error {
	kubeconfig := filepath.Join(c.options.dir, "controller-manager.kubeconfig")
	auth := &clientcmdapi.AuthInfo{
		ClientCertificate: c.credentials.manager.CertFile,
		ClientKey:         c.credentials.manager.KeyFile,
	}
	if err := users.WriteKubeconfig(kubeconfig, controllermanager.Name, c.apiserver.URL, c.credentials.servingCA.CertFile, auth); err != nil {
		return err
	}
	process, err := controllermanager.Start(controllermanager.Config{
		LogFile:           filepath.Join(c.logs, controllermanager.Name+".log"),
		Kubeconfig:        kubeconfig,
		ServingCA:         c.credentials.servingCA,
		ClientCA:          c.credentials.clientCA,
		ServiceAccountKey: c.credentials.serviceAccountKey,
	})
	if err != nil {
		return err
	}
	c.manager = process
	return controllermanager.WaitReady(starting, process, client)
}

// client calls the API as this process, whose calls the audit log leaves out.
func (c *cluster) client() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: c.apiserver.URL,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   c.credentials.servingCA.CertFile,
			CertFile: c.credentials.internal.CertFile,
			KeyFile:  c.credentials.internal.KeyFile,
		},
		// No limit on our side.
		QPS: -1,
	})
}

// hold returns nil when asked to end, and an error when a part has died.
func (c *cluster) hold(ctx context.Context) error {
	var managerDone <-chan struct{}
	if c.manager != nil {
		managerDone = c.manager.Done()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-c.apiserver.Done():
		return c.apiserver.Failure(c.apiserver.ExitReason())
	case <-managerDone:
		return c.manager.Failure(c.manager.ExitReason())
	case err := <-c.etcd.Failed():
		return fmt.Errorf("etcd failed: %w", err)
	}
}

func (c *cluster) stop() {
	if c.kubelet != nil {
		c.kubelet.Stop()
	}
	if c.manager != nil {
		c.manager.Stop(stopGrace)
	}
	if c.apiserver != nil {
		c.apiserver.Stop(stopGrace)
	}
	// etcd ends with this process: closing it in good order takes seconds, to
	// save data that nobody will read.
}

func (c *cluster) auditLog() string {
	if !c.options.audit {
		return ""
	}
	return filepath.Join(c.options.dir, "audit.log")
}

func (c *cluster) report() report {
	r := report{
		URL:             c.apiserver.URL,
		CAFile:          c.credentials.servingCA.CertFile,
		ClientCAFile:    c.credentials.clientCA.CertFile,
		ServingCertFile: c.credentials.gateway.CertFile,
		ServingKeyFile:  c.credentials.gateway.KeyFile,
		Users:           c.credentials.users,
		PIDs:            map[string]int{"testcluster": os.Getpid(), apiserver.Name: c.apiserver.PID()},
		Logs:            map[string]string{apiserver.Name: c.apiserver.Log},
		AuditLog:        c.auditLog(),
	}
	if c.manager != nil {
		r.PIDs[controllermanager.Name] = c.manager.PID()
		r.Logs[controllermanager.Name] = c.manager.Log
	}
	return r
}
